// A graph on a canvas: only what is in sight is drawn, and its words only where they can be read.
const KIND = "600 13px system-ui,sans-serif", NAME = "11px system-ui,sans-serif";
const READABLE = 0.42, PLAIN = 0.25, STRAIGHT = 0.12, START = 0.7, SMALLEST = 0.002, LARGEST = 4;
const BUTTONS = 52; // pixels of a narrow canvas that the buttons for zooming take

export class Viewport {
  // `fills` gives a node's colours by its number, `choose` is told which node was chosen, `moved` the part in sight;
  // `room` is what stands in front of the canvas at its bottom, in pixels.
  constructor(canvas, { fills, choose, moved, room }) {
    Object.assign(this, { canvas, fills, choose, moved, room });
    this.pen = canvas.getContext("2d", { alpha: false });
    this.scale = 1;
    this.x = this.y = 0;
    this.chosen = -1;
    this.found = new Set();
    this.scenes = this.frames = 0; // how often a graph was taken in, and a frame drawn
    this.pending = 0;
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
    this.colours();
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const name = (key) => style.getPropertyValue(`--${key}`).trim();
    this.palette = { ground: name("ground"), ink: name("ink"), soft: name("soft"), lit: name("e1") };
    this.draw();
  }

  show(graph) {
    this.graph = graph;
    this.scenes++;
    this.rows = [];
    graph.nodes.forEach((node, number) => {
      const row = Math.round(node.y / graph.row);
      (this.rows[row] ??= []).push(number);
    });
    // An edge is kept in each stretch of rows that it passes, so that few are looked at for a frame.
    this.stretches = [];
    graph.edges.forEach((edge, number) => {
      const [a, b] = [edge[0], edge[1]].map((end) => Math.floor(graph.nodes[end].y / graph.row / 16));
      for (let k = Math.min(a, b); k <= Math.max(a, b); k++) (this.stretches[k] ??= []).push(number);
    });
    this.labels = new Map();
    this.chosen = -1;
    this.start();
  }

  // The whole graph where it can be read, or else its top.
  start() {
    const { width } = this.free();
    if (this.whole() >= 0.5) return this.fit();
    this.scale = Math.min(Math.max(width / (this.graph.width + 60), START), 1);
    const first = this.graph.nodes.find((node) => node.y === 0) ?? { x: 0, w: 0 };
    this.x = width / 2 - (first.x + first.w / 2) * this.scale;
    if (this.graph.width * this.scale < width) this.x = (width - this.graph.width * this.scale) / 2;
    this.y = 24;
    this.draw();
  }

  // The scale at which all of it is in sight, and nothing stands in front of it.
  whole() {
    const { width, height } = this.free();
    return Math.min(width / (this.graph.width + 32), height / (this.graph.height + 32), 1);
  }

  free() {
    const { width, height } = this.size();
    return { width: width - (width < 700 ? BUTTONS : 0), height: height - this.room() };
  }

  fit() {
    const { width, height } = this.free();
    this.scale = this.whole();
    this.x = (width - this.graph.width * this.scale) / 2;
    this.y = (height - this.graph.height * this.scale) / 2;
    this.draw();
  }

  // Bring a place of the graph to the middle.
  look(x, y) {
    const { width, height } = this.size();
    this.x = width / 2 - x * this.scale;
    this.y = height / 2 - y * this.scale;
    this.pan(0, 0);
  }

  centre(number) {
    const node = this.graph.nodes[number];
    if (this.scale < READABLE) this.scale = 0.8;
    this.look(node.x + node.w / 2, node.y + this.graph.box / 2);
  }

  size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  resize() {
    const ratio = devicePixelRatio || 1, { width, height } = this.size();
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (this.graph) this.paint();
  }

  zoom(factor, x = this.size().width / 2, y = this.size().height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, SMALLEST), LARGEST);
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    const { width, height } = this.size(), margin = 60;
    const wide = this.graph.width * this.scale, high = this.graph.height * this.scale;
    this.x = Math.min(Math.max(this.x + dx, margin - wide), width - margin);
    this.y = Math.min(Math.max(this.y + dy, margin - high), height - margin);
    this.draw();
  }

  draw() {
    if (!this.graph || this.pending) return;
    this.pending = requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.pending);
    this.pending = 0;
    this.frames++;
    const { pen, graph, scale } = this, ratio = devicePixelRatio || 1, { width, height } = this.size();
    const sight = { left: -this.x / scale, top: -this.y / scale };
    sight.right = sight.left + width / scale;
    sight.bottom = sight.top + height / scale;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = this.palette.ground;
    pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    pen.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * this.x, ratio * this.y);
    this.paintEdges(sight);
    const from = Math.max(Math.floor((sight.top - graph.box) / graph.row), 0);
    const to = Math.min(Math.floor(sight.bottom / graph.row), this.rows.length - 1);
    for (let row = from; row <= to; row++)
      for (const number of this.rows[row] ?? []) {
        const node = graph.nodes[number];
        if (node.x <= sight.right && node.x + node.w >= sight.left) this.paintNode(node, number);
      }
    this.moved?.(sight);
  }

  paintEdges(sight) {
    const { pen, graph, scale, palette } = this, own = [];
    const seen = new Set();
    const from = Math.max(Math.floor(sight.top / graph.row / 16), 0), to = Math.floor(sight.bottom / graph.row / 16);
    pen.lineWidth = Math.max(1.2, 0.6 / scale);
    pen.strokeStyle = palette.soft;
    pen.globalAlpha = 0.55;
    pen.beginPath();
    for (let k = from; k <= Math.min(to, this.stretches.length - 1); k++)
      for (const number of this.stretches[k] ?? []) {
        if (seen.has(number)) continue;
        seen.add(number);
        const edge = graph.edges[number];
        if (edge[0] === this.chosen || edge[1] === this.chosen) own.push(edge);
        else this.trace(edge);
      }
    pen.stroke();
    pen.globalAlpha = 1;
    pen.strokeStyle = palette.lit;
    pen.lineWidth = Math.max(2.4, 1.2 / scale);
    pen.beginPath();
    own.forEach((edge) => this.trace(edge));
    pen.stroke();
  }

  trace([from, to, path]) {
    const { pen, graph } = this, source = graph.nodes[from], target = graph.nodes[to];
    let x = source.x + source.w / 2, y = source.y + graph.box;
    pen.moveTo(x, y);
    const ends = path.map(([first, last, at]) => [at, first * graph.row, last * graph.row + graph.box]);
    for (const [at, top, bottom] of [...ends, [target.x + target.w / 2, target.y, target.y]]) {
      const middle = (y + top) / 2;
      if (this.scale < STRAIGHT || Math.abs(at - x) < 0.5) pen.lineTo(at, top);
      else pen.bezierCurveTo(x, middle, at, middle, at, top);
      if (bottom !== top) pen.lineTo(at, bottom);
      [x, y] = [at, bottom];
    }
  }

  paintNode(node, number) {
    const { pen, graph, scale, palette } = this, isChosen = number === this.chosen;
    const [fill, edge, ink] = this.fills(node, number);
    pen.fillStyle = fill;
    if (scale < PLAIN && !isChosen) return pen.fillRect(node.x, node.y, node.w, graph.box);
    pen.beginPath();
    pen.roundRect(node.x, node.y, node.w, graph.box, node.end ? graph.box / 2 : 6);
    pen.fill();
    pen.strokeStyle = isChosen || this.found.has(number) ? palette.lit : edge;
    pen.lineWidth = isChosen ? Math.max(3, 2 / scale) : this.found.has(number) ? 2.5 : 1;
    pen.stroke();
    if (scale < READABLE) return;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const middle = node.x + node.w / 2, under = node.name ? 9 : 0;
    pen.fillStyle = ink ?? palette.ink;
    pen.font = KIND;
    pen.fillText(this.cut(node, "kind"), middle, node.y + graph.box / 2 - under);
    if (!node.name) return;
    pen.font = NAME;
    pen.fillText(this.cut(node, "name"), middle, node.y + graph.box / 2 + 9);
  }

  // As much of a word as its box holds: of names the end, which tells them apart.
  cut(node, key) {
    const label = `${key} ${node[key]} ${node.w}`;
    if (!this.labels.has(label)) {
      let text = node[key];
      const room = node.w - 14;
      if (this.pen.measureText(text).width > room) {
        let count = Math.max(Math.floor((text.length * room) / this.pen.measureText(text).width) - 1, 1);
        const shorten = () => (key === "name" ? `…${text.slice(-count)}` : `${text.slice(0, count)}…`);
        while (count > 1 && this.pen.measureText(shorten()).width > room) count--;
        text = shorten();
      }
      this.labels.set(label, text);
    }
    return this.labels.get(label);
  }

  at(x, y) {
    const gx = (x - this.x) / this.scale, gy = (y - this.y) / this.scale, { graph } = this;
    if (gy % graph.row > graph.box || gy < 0) return -1;
    const row = this.rows[Math.floor(gy / graph.row)] ?? [];
    return row.find((k) => gx >= graph.nodes[k].x && gx <= graph.nodes[k].x + graph.nodes[k].w) ?? -1;
  }

  // A box below the mouse tells its whole name, which may be cut in the box, and that it can be chosen.
  point(x, y) {
    const node = this.graph?.nodes[this.at(x, y)], told = node ? [node.kind, node.name].filter(Boolean).join("\n") : "";
    if (this.canvas.title !== told) this.canvas.title = told;
    this.canvas.classList.toggle("over", Boolean(node));
  }

  listen() {
    const { canvas } = this, pointers = new Map();
    let travelled = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      travelled = pointers.size > 1 ? 99 : 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId), now = [event.offsetX, event.offsetY];
      if (!before) return this.point(...now);
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
        this.zoom(apart(now) / (apart(before) || 1), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
        this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
      } else if ((travelled += Math.hypot(now[0] - before[0], now[1] - before[1])) > 4) {
        this.pan(now[0] - before[0], now[1] - before[1]);
      } else return;
      pointers.set(event.pointerId, now);
    });
    const end = (event) => pointers.delete(event.pointerId);
    canvas.addEventListener("pointerup", (event) => {
      end(event);
      if (travelled <= 4) this.choose(this.at(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const step = event.deltaMode === 1 ? 20 : 1;
      if (event.ctrlKey || event.metaKey || !event.shiftKey)
        this.zoom(Math.exp(-event.deltaY * step * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
      else this.pan(-(event.deltaX || event.deltaY) * step, 0);
    }, { passive: false });
    const keys = {
      ArrowLeft: () => this.pan(60, 0), ArrowRight: () => this.pan(-60, 0),
      ArrowUp: () => this.pan(0, 60), ArrowDown: () => this.pan(0, -60),
      "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), 0: () => this.fit(),
      Escape: () => this.choose(-1),
    };
    canvas.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}
