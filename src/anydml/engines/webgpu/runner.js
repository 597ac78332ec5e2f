// Carries out a recording (see recording.py) by a browser's WebGPU.
// const model = await anydml.load(recording, weights, told); const {outputs, milliseconds} = await model.run({x: array});
"use strict";
const anydml = {
  arrays: {
    FLOAT32: Float32Array, FLOAT64: Float64Array, FLOAT16: Uint16Array, INT8: Int8Array, UINT8: Uint8Array,
    INT16: Int16Array, UINT16: Uint16Array, INT32: Int32Array, UINT32: Uint32Array,
    INT64: BigInt64Array, UINT64: BigUint64Array,
  },

  // The number that the bits of a FLOAT16 are.
  half(bits) {
    const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    return sign * (exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
  },

  // The device, with the limits that a recording needs.
  async open(recording) {
    if (!navigator.gpu) throw new Error("this browser has no WebGPU: take a recent Chrome, Edge, Safari or Firefox, over https or from a local address");
    const adapter = await navigator.gpu.requestAdapter({powerPreference: "high-performance"});
    if (!adapter) throw new Error("the browser finds no GPU for WebGPU");
    const needed = {maxBufferSize: 0, maxStorageBufferBindingSize: 0, maxStorageBuffersPerShaderStage: 0};
    for (const size of recording.sizes) needed.maxBufferSize = Math.max(needed.maxBufferSize, size);
    for (const step of [...recording.setup, ...recording.steps]) {
      if (step.kernel === undefined) continue;
      needed.maxStorageBuffersPerShaderStage = Math.max(needed.maxStorageBuffersPerShaderStage, step.bindings.length);
      for (const [, , size] of step.bindings) needed.maxStorageBufferBindingSize = Math.max(needed.maxStorageBufferBindingSize, size);
    }
    const requiredLimits = {};
    for (const [name, least] of Object.entries(needed)) {
      if (adapter.limits[name] < least) throw new Error(`the GPU's ${name} is ${adapter.limits[name]}, and this model needs ${least}`);
      requiredLimits[name] = adapter.limits[name];
    }
    return adapter.requestDevice({requiredLimits});
  },

  async load(recording, weights, told = () => {}) {
    const device = await anydml.open(recording);
    let lost = "";
    device.lost.then((why) => { lost = why.message || why.reason; });
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("validation");
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffers = recording.sizes.map((size) => device.createBuffer({size, usage}));
    let made = 0;
    const pipelines = await Promise.all(recording.kernels.map(async ({text, bindings}) => {
      const entries = [];
      for (let k = 0; k <= bindings; k++) {
        const type = k < bindings ? "storage" : "uniform";
        entries.push({binding: k, visibility: GPUShaderStage.COMPUTE, buffer: {type}});
      }
      const group = device.createBindGroupLayout({entries});
      const layout = device.createPipelineLayout({bindGroupLayouts: [group]});
      const module = device.createShaderModule({code: text});
      const pipeline = await device.createComputePipelineAsync({layout, compute: {module, entryPoint: "main"}});
      told("kernels", ++made / recording.kernels.length);
      return {pipeline, group};
    }));
    const prepare = (steps) => {
      const slots = steps.map((step) => step.kernel === undefined ? 0 : Math.ceil(step.numbers.length / 64) * 256);
      const size = Math.max(slots.reduce((a, b) => a + b, 0), 256);
      const numbers = device.createBuffer({size, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST});
      const words = new Uint32Array(size / 4);
      let at = 0;
      const prepared = steps.map((step, k) => {
        if (step.kernel === undefined) return step;
        words.set(step.numbers, at / 4);
        const {pipeline, group} = pipelines[step.kernel];
        const entries = step.bindings.map(([buffer, offset, size], binding) =>
          ({binding, resource: {buffer: buffers[buffer], offset, size}}));
        entries.push({binding: entries.length, resource: {buffer: numbers, offset: at, size: slots[k]}});
        at += slots[k];
        return {pipeline, bound: device.createBindGroup({layout: group, entries}), groups: step.groups};
      });
      device.queue.writeBuffer(numbers, 0, words);
      return prepared;
    };
    const record = (encoder, steps) => {
      let pass = null;
      for (const step of steps) {
        if (step.pipeline) {
          pass ??= encoder.beginComputePass();
          pass.setPipeline(step.pipeline);
          pass.setBindGroup(0, step.bound);
          pass.dispatchWorkgroups(...step.groups);
          continue;
        }
        pass?.end();
        pass = null;
        if (step.copy) encoder.copyBufferToBuffer(buffers[step.copy[0]], step.copy[1], buffers[step.to[0]], step.to[1], step.copy[2]);
      }
      pass?.end();
    };
    const write = (step) => device.queue.writeBuffer(buffers[step.write[0]], step.write[1], weights, step.at, step.size);
    const setup = prepare(recording.setup), steps = prepare(recording.steps);
    let done = 0;
    for (let first = 0; first < setup.length;) {  // bytes are written before the commands of one submission
      let last = first;
      while (last < setup.length && setup[last].write) write(setup[last++]);
      const encoder = device.createCommandEncoder(), from = last;
      while (last < setup.length && !setup[last].write) last++;
      record(encoder, setup.slice(from, last));
      device.queue.submit([encoder.finish()]);
      done += last - first;
      first = last;
      told("weights", done / setup.length);
    }
    await device.queue.onSubmittedWorkDone();
    for (const error of [await device.popErrorScope(), await device.popErrorScope()]) if (error) throw new Error(error.message);

    const whole = recording.outputs.map(({place: [, , size]}) => Math.ceil(size / 4) * 4);
    const starts = whole.map((_, k) => whole.slice(0, k).reduce((a, b) => a + Math.ceil(b / 8) * 8, 0));
    const length = Math.max(starts.at(-1) + whole.at(-1), 8);
    const staging = device.createBuffer({size: Math.ceil(length / 8) * 8, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST});
    let queue = Promise.resolve();
    const once = async (inputs) => {
      if (lost) throw new Error(`the GPU was lost (${lost}): load the page again`);
      for (const {name, type, place: [buffer, offset, size]} of recording.inputs) {
        const given = inputs[name];
        if (!given) throw new Error(`the input ${name} is missing`);
        if (!(given instanceof anydml.arrays[type]) || given.byteLength !== size)
          throw new Error(`the input ${name} must be a ${anydml.arrays[type].name} of ${size / anydml.arrays[type].BYTES_PER_ELEMENT} elements`);
        const bytes = new Uint8Array(Math.ceil(size / 4) * 4);
        bytes.set(new Uint8Array(given.buffer, given.byteOffset, size));
        device.queue.writeBuffer(buffers[buffer], offset, bytes);
      }
      const begun = performance.now();
      for (let first = 0; first < steps.length;) {
        let last = first;
        while (last < steps.length && steps[last].write) write(steps[last++]);
        const encoder = device.createCommandEncoder(), from = last;
        while (last < steps.length && !steps[last].write) last++;
        record(encoder, steps.slice(from, last));
        device.queue.submit([encoder.finish()]);
        first = last;
      }
      const encoder = device.createCommandEncoder();
      recording.outputs.forEach(({place: [buffer, offset]}, k) => encoder.copyBufferToBuffer(buffers[buffer], offset, staging, starts[k], whole[k]));
      device.queue.submit([encoder.finish()]);
      await staging.mapAsync(GPUMapMode.READ);
      const milliseconds = performance.now() - begun, outputs = {};
      const mapped = staging.getMappedRange();  // which a browser gives once
      recording.outputs.forEach(({name, type, place: [, , size]}, k) => {
        const bytes = mapped.slice(starts[k], starts[k] + size);
        outputs[name] = new anydml.arrays[type](bytes);
      });
      staging.unmap();
      return {outputs, milliseconds};
    };
    // One run after the other, whoever asks.
    const run = (inputs) => queue = queue.catch(() => {}).then(() => once(inputs));
    return {device, run, inputs: recording.inputs, outputs: recording.outputs};
  },
};
