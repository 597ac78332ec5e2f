// A graph on a canvas: only what is in sight is drawn, and its words only where they can be read.
const KIND = "600 13px system-ui,sans-serif", NAME = "11px system-ui,sans-serif";
const READABLE = 0.42, PLAIN = 0.25, STRAIGHT = 0.12, START = 0.7, SMALLEST = 0.002, LARGEST = 4;
const LABEL = "10px system-ui,sans-serif", LETTER = 5.7, LABELLED = 0.62;
const BUTTONS = 52; // pixels of a narrow canvas that the row of buttons at its top takes
const HEAD = 28, FOLD = 26; // of a frame its title, and of a folded box the part that unfolds it
const STRETCH = 16; // rows whose links are kept together

export class Viewport {
  // `fills` gives a box's colours by its number, `choose` is told which item was chosen and `fold` which group was
  // opened or closed, `moved` the part in sight; `room` is what stands in front of the canvas at its bottom, in pixels.
  constructor(canvas, { fills, choose, fold, moved, room }) {
    Object.assign(this, { canvas, fills, choose, fold, moved, room });
    this.pen = canvas.getContext("2d", { alpha: false });
    this.scale = 1;
    this.x = this.y = 0;
    this.chosen = null; // a node by its number, or a group by the complement of its own
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
    this.palette = { ground: name("ground"), ink: name("ink"), soft: name("soft"), lit: name("e1"), frame: name("line"), cell: name("cell") };
    this.draw();
  }

  // A scene: boxes with words, frames around some, and links between them. One of the same graph stays where it was.
  show(scene, { stays = null } = {}) {
    const before = stays === null ? null : this.place(stays);
    this.graph = scene;
    this.scenes++;
    this.rows = [];
    this.byItem = new Map();
    scene.boxes.forEach((box, number) => {
      this.byItem.set(box.item, number);
      (this.rows[Math.floor(box.y / scene.row)] ??= []).push(number);
    });
    // A link is kept in each stretch of rows that it passes, so that few are looked at for a frame.
    const high = STRETCH * scene.row;
    this.stretches = [];
    scene.edges.forEach((edge, number) => {
      const [a, b] = [edge[0], edge[1]].map((end) => Math.floor(scene.boxes[end].y / high));
      for (let k = Math.min(a, b); k <= Math.max(a, b); k++) (this.stretches[k] ??= []).push(number);
    });
    this.labels = new Map();
    this.chosen = null;
    const after = before && this.place(stays);
    if (!after) return this.start();
    this.x += (before.x - after.x) * this.scale;
    this.y += (before.y - after.y) * this.scale;
    this.pan(0, 0);
  }

  // Where an item stands: a box, or the frame of an open group.
  place(item) {
    const number = this.byItem?.get(item);
    if (number !== undefined) return this.graph.boxes[number];
    return this.graph?.frames.find((frame) => ~frame.group === item);
  }

  // Words on links, by number of the box below which or above which they stand: they are left out where there is no room.
  name(told) {
    const { graph } = this, taken = [];
    this.words = [];
    for (const [number, text, isAbove] of told) {
      const box = graph.boxes[number], width = text.length * LETTER + 8;
      const x = box.x + box.w / 2, y = isAbove ? box.y - 9 : box.y + graph.box + 10, row = Math.floor(y / 12);
      const isFree = [row - 1, row, row + 1].every((k) => (taken[k] ?? []).every(([a, b]) => x + width / 2 < a || x - width / 2 > b));
      if (!isFree) continue;
      (taken[row] ??= []).push([x - width / 2, x + width / 2]);
      (this.words[Math.floor(y / graph.row)] ??= []).push([x, y, text, width]);
    }
    this.draw();
  }

  // The whole graph where it can be read, or else its top.
  start() {
    const { width, top } = this.free();
    if (this.whole() >= 0.5) return this.fit();
    this.scale = Math.min(Math.max(width / (this.graph.width + 60), START), 1);
    const first = this.graph.boxes.find((box) => box.y === 0) ?? { x: 0, w: 0 };
    this.x = width / 2 - (first.x + first.w / 2) * this.scale;
    if (this.graph.width * this.scale < width) this.x = (width - this.graph.width * this.scale) / 2;
    this.y = top + 24;
    this.draw();
  }

  // The scale at which all of it is in sight, and nothing stands in front of it.
  whole() {
    const { width, height } = this.free();
    return Math.min(width / (this.graph.width + 32), height / (this.graph.height + 32), 1);
  }

  free() {
    const { width, height } = this.size();
    const top = width < 700 ? BUTTONS : 0;
    return { width, height: height - this.room() - top, top };
  }

  fit() {
    if (!this.graph) return;
    const { width, height, top } = this.free();
    this.scale = this.whole();
    this.x = (width - this.graph.width * this.scale) / 2;
    this.y = top + (height - this.graph.height * this.scale) / 2;
    this.draw();
  }

  // Bring a place of the graph to the middle.
  look(x, y) {
    const { width, height } = this.size();
    this.x = width / 2 - x * this.scale;
    this.y = height / 2 - y * this.scale;
    this.pan(0, 0);
  }

  centre(item) {
    const box = this.place(item);
    if (!box) return;
    if (this.scale < READABLE) this.scale = 0.8;
    this.look(box.x + box.w / 2, box.y + this.graph.box / 2);
  }

  size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  resize() {
    const ratio = devicePixelRatio || 1, { width, height } = this.size();
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (this.graph) return this.paint();
    this.pen.fillStyle = this.palette.ground; // a canvas without alpha begins black
    this.pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  zoom(factor, x = this.size().width / 2, y = this.size().height / 2) {
    if (!this.graph) return;
    const scale = Math.min(Math.max(this.scale * factor, SMALLEST), LARGEST);
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    if (!this.graph) return;
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
    const { pen, scale } = this, ratio = devicePixelRatio || 1, { width, height } = this.size();
    const sight = { left: -this.x / scale, top: -this.y / scale };
    sight.right = sight.left + width / scale;
    sight.bottom = sight.top + height / scale;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = this.palette.ground;
    pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    pen.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * this.x, ratio * this.y);
    this.paintOn(pen, sight, scale);
    this.moved?.(sight);
  }

  // What is in sight, with a pen that draws in the graph's own units: on the canvas, or into a file.
  paintOn(pen, sight, scale) {
    const { graph } = this;
    for (const frame of graph.frames)
      if (frame.x <= sight.right && frame.x + frame.w >= sight.left && frame.y <= sight.bottom && frame.y + frame.h >= sight.top) this.paintFrame(pen, frame, scale);
    this.paintEdges(pen, sight, scale);
    const from = Math.max(Math.floor((sight.top - graph.box) / graph.row), 0);
    const to = Math.min(Math.floor(sight.bottom / graph.row), this.rows.length - 1);
    for (let row = from; row <= to; row++)
      for (const number of this.rows[row] ?? []) {
        const box = graph.boxes[number];
        if (box.x <= sight.right && box.x + box.w >= sight.left) this.paintBox(pen, box, number, scale);
      }
    if (scale >= LABELLED) this.paintWords(pen, sight);
  }

  paintFrame(pen, frame, scale) {
    const { palette } = this, isChosen = this.chosen === ~frame.group;
    pen.fillStyle = palette.cell;
    pen.beginPath();
    pen.roundRect(frame.x, frame.y, frame.w, frame.h, 10);
    pen.fill();
    pen.strokeStyle = isChosen ? palette.lit : palette.frame;
    pen.lineWidth = isChosen ? Math.max(2, 2 / scale) : Math.max(1, 0.6 / scale);
    pen.stroke();
    if (scale < READABLE) return;
    pen.fillStyle = palette.soft;
    pen.font = NAME;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(`− ${this.cut(frame.kind, frame.w - 10, NAME, false)}`, frame.x + 10, frame.y + HEAD / 2 + 1);
  }

  paintWords(pen, sight) {
    const { palette, graph } = this;
    pen.font = LABEL;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const from = Math.max(Math.floor(sight.top / graph.row) - 1, 0), to = Math.floor(sight.bottom / graph.row) + 1;
    for (let row = from; row <= Math.min(to, (this.words?.length ?? 0) - 1); row++)
      for (const [x, y, text, width] of this.words[row] ?? []) {
        if (x + width / 2 < sight.left || x - width / 2 > sight.right) continue;
        pen.globalAlpha = 0.85;
        pen.fillStyle = palette.ground;
        pen.fillRect(x - width / 2, y - 6.5, width, 13);
        pen.globalAlpha = 1;
        pen.fillStyle = palette.soft;
        pen.fillText(text, x, y + 0.5);
      }
  }

  paintEdges(pen, sight, scale) {
    const { graph, palette } = this, own = [], high = STRETCH * graph.row;
    const seen = new Set();
    const from = Math.max(Math.floor(sight.top / high), 0), to = Math.floor(sight.bottom / high);
    pen.lineWidth = Math.max(1.2, 0.6 / scale);
    pen.strokeStyle = palette.soft;
    pen.globalAlpha = 0.55;
    pen.beginPath();
    for (let k = from; k <= Math.min(to, this.stretches.length - 1); k++)
      for (const number of this.stretches[k] ?? []) {
        if (seen.has(number)) continue;
        seen.add(number);
        const edge = graph.edges[number];
        if (this.chosen !== null && (graph.boxes[edge[0]].item === this.chosen || graph.boxes[edge[1]].item === this.chosen)) own.push(edge);
        else this.trace(pen, edge, scale);
      }
    pen.stroke();
    pen.globalAlpha = 1;
    if (!own.length) return;
    pen.strokeStyle = palette.lit;
    pen.lineWidth = Math.max(2.4, 1.2 / scale);
    pen.beginPath();
    own.forEach((edge) => this.trace(pen, edge, scale));
    pen.stroke();
  }

  trace(pen, [from, to, path], scale) {
    const { graph } = this, source = graph.boxes[from], target = graph.boxes[to];
    let x = source.x + source.w / 2, y = source.y + graph.box;
    pen.moveTo(x, y);
    for (const [at, top, bottom] of [...path, [target.x + target.w / 2, target.y, target.y]]) {
      const middle = (y + top) / 2;
      if (scale < STRAIGHT || Math.abs(at - x) < 0.5) pen.lineTo(at, top);
      else pen.bezierCurveTo(x, middle, at, middle, at, top);
      if (bottom !== top) pen.lineTo(at, bottom);
      [x, y] = [at, bottom];
    }
  }

  paintBox(pen, box, number, scale) {
    const { graph, palette } = this, isChosen = box.item === this.chosen, isFound = this.found.has(box.item);
    const [fill, edge, ink] = this.fills(number);
    pen.fillStyle = fill;
    if (scale < PLAIN && !isChosen) return pen.fillRect(box.x, box.y, box.w, graph.box);
    const isGroup = box.item < 0;
    pen.strokeStyle = isChosen || isFound ? palette.lit : edge;
    pen.lineWidth = isChosen ? Math.max(3, 2 / scale) : isFound ? 2.5 : 1;
    for (const off of isGroup ? [4, 0] : [0]) { // a folded one looks as if others lay behind it
      pen.beginPath();
      pen.roundRect(box.x + off, box.y + off, box.w - off, graph.box - off, box.end ? graph.box / 2 : 6);
      pen.fill();
      pen.stroke();
    }
    if (scale < READABLE) return;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const middle = box.x + box.w / 2, under = box.name ? 9 : 0, room = box.w - (isGroup ? 14 + FOLD : 14);
    pen.fillStyle = ink ?? palette.ink;
    pen.font = KIND;
    pen.fillText(this.cut(box.kind, room, KIND, false), isGroup ? middle - FOLD / 3 : middle, box.y + graph.box / 2 - under);
    if (isGroup) pen.fillText("+", box.x + box.w - FOLD / 2, box.y + graph.box / 2);
    if (!box.name) return;
    pen.font = NAME;
    pen.fillText(this.cut(box.name, room, NAME, !isGroup), isGroup ? middle - FOLD / 3 : middle, box.y + graph.box / 2 + 9);
  }

  // As much of a word as there is room for: of names the end, which tells them apart.
  cut(word, room, font, isName) {
    const label = `${font} ${word} ${room}`;
    if (!this.labels.has(label)) {
      let text = word;
      const { pen } = this, before = pen.font;
      pen.font = font;
      if (pen.measureText(text).width > room) {
        let count = Math.max(Math.floor((text.length * room) / pen.measureText(text).width) - 1, 1);
        const shorten = () => (isName ? `…${word.slice(-count)}` : `${word.slice(0, count)}…`);
        while (count > 1 && pen.measureText(shorten()).width > room) count--;
        text = shorten();
      }
      pen.font = before;
      this.labels.set(label, text);
    }
    return this.labels.get(label);
  }

  // The item at a place of the canvas, and whether the place is the one that folds or unfolds it.
  at(x, y) {
    if (!this.rows) return null;
    const gx = (x - this.x) / this.scale, gy = (y - this.y) / this.scale, { graph } = this, row = Math.floor(gy / graph.row);
    for (const number of [...(this.rows[row] ?? []), ...(this.rows[row - 1] ?? [])]) {
      const box = graph.boxes[number];
      if (gx >= box.x && gx <= box.x + box.w && gy >= box.y && gy <= box.y + graph.box) return { item: box.item, folds: box.item < 0 && gx > box.x + box.w - FOLD, box };
    }
    const frame = graph.frames.findLast((one) => gx >= one.x && gx <= one.x + one.w && gy >= one.y && gy <= one.y + HEAD);
    return frame ? { item: ~frame.group, folds: true, box: frame } : null;
  }

  // A box below the mouse tells its whole name, which may be cut in the box, and that it can be chosen.
  point(x, y) {
    const found = this.at(x, y);
    const told = found ? [found.box.kind, found.box.name].filter(Boolean).join("\n") : "";
    if (this.canvas.title !== told) this.canvas.title = told;
    this.canvas.classList.toggle("over", Boolean(found));
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
      if (travelled > 4) return;
      const found = this.at(event.offsetX, event.offsetY);
      if (found?.folds) this.fold(~found.item);
      else this.choose(found ? found.item : null);
    });
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("dblclick", (event) => {
      const found = this.at(event.offsetX, event.offsetY);
      if (found && found.item < 0 && !found.folds) this.fold(~found.item);
    });
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
      Enter: () => this.chosen !== null && this.chosen < 0 && this.fold(~this.chosen),
      Escape: () => this.choose(null),
    };
    canvas.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}
