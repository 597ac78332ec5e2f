// A large graph as a whole, small, with a frame around the part in sight: a finger or a mouse moves the frame.
import { el } from "./elements.js";

const WIDEST = 132, HIGHEST = 190, NARROWEST = 64, LARGE = 0.5, LOWEST = 300;

export class Minimap {
  constructor(port) {
    this.port = port;
    this.canvas = el("canvas", {});
    this.frame = el("i", {});
    this.root = el("div", { class: "minimap", "aria-hidden": "true", hidden: true }, this.canvas, this.frame);
    const go = (event) => {
      if (!event.buttons && event.type !== "pointerdown") return;
      const { left, top } = this.root.getBoundingClientRect();
      this.root.setPointerCapture(event.pointerId);
      port.look((event.clientX - left - this.root.clientLeft) / this.across, (event.clientY - top - this.root.clientTop) / this.down);
    };
    this.root.addEventListener("pointerdown", go);
    this.root.addEventListener("pointermove", go);
  }

  // A graph of few rows needs none; one of many is drawn once, and again in other colours.
  show(graph, colours) {
    const { width, height } = this.port.size();
    this.root.hidden = !graph.boxes.length || height < LOWEST || Math.min(width / graph.width, height / graph.height) >= LARGE;
    if (this.root.hidden) return;
    const narrow = width < 500 ? 0.7 : 1, ratio = devicePixelRatio || 1;
    this.down = Math.min((HIGHEST * narrow) / graph.height, (WIDEST * narrow) / graph.width * 4);
    this.across = Math.min(Math.max(this.down, NARROWEST / graph.width), (WIDEST * narrow) / graph.width);
    const [wide, high] = [graph.width * this.across, graph.height * this.down];
    Object.assign(this.canvas, { width: Math.ceil(wide * ratio), height: Math.ceil(high * ratio) });
    Object.assign(this.canvas.style, { width: `${wide}px`, height: `${high}px` });
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    graph.boxes.forEach((node, k) => {
      pen.fillStyle = colours[k];
      pen.fillRect(node.x * this.across, node.y * this.down, Math.max(node.w * this.across, 1.5), Math.max(graph.box * this.down, 1));
    });
  }

  move({ left, top, right, bottom }) {
    if (this.root.hidden) return;
    const { graph } = this.port, inside = (value, most) => Math.min(Math.max(value, 0), most);
    const [a, b] = [inside(left, graph.width), inside(right, graph.width)].map((x) => x * this.across);
    const [c, d] = [inside(top, graph.height), inside(bottom, graph.height)].map((y) => y * this.down);
    Object.assign(this.frame.style, { transform: `translate(${a}px,${c}px)`, width: `${Math.max(b - a, 8)}px`, height: `${Math.max(d - c, 8)}px` });
  }
}
