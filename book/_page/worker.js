// Python in a worker that is made from a Blob, so that it starts from a folder too. It has what the page hands over, and no way out.
const given = {}, asked = {};
self.fetch = async (address) => {
  const name = String(address).split("/").pop();
  if (!(name in given)) throw new TypeError("nothing is loaded from elsewhere in the page");
  return new Response(given[name], { headers: { "Content-Type": name.endsWith(".wasm") ? "application/wasm" : "application/octet-stream" } });
};
for (const way of ["XMLHttpRequest", "WebSocket", "EventSource", "WebTransport", "Worker", "BroadcastChannel", "indexedDB", "caches"])
  Object.defineProperty(self, way, { value: undefined });
self.importScripts = () => { throw new TypeError("nothing is loaded from elsewhere in the page"); };
self.addEventListener("unhandledrejection", (event) => event.preventDefault()); // what a cell asked for in vain is the cell's to hear about

const start = async ({ files, root, folder, later }) => {
  Object.assign(given, files);
  const python = await loadPyodide({ indexURL: "https://page.invalid/" });
  const modules = python.runPython("import site; site.getsitepackages()[0]");
  const unpack = (files) => {
    for (const [name, content] of Object.entries(files)) {
      if (name.endsWith(".whl")) python.unpackArchive(content, "wheel", { extractDir: modules });
      if (name.endsWith(".tar.gz")) python.unpackArchive(content, "gztar", { extractDir: name.startsWith("files") ? root : modules });
    }
  };
  unpack(files);
  const page = python.pyimport("byhand_page");
  page.start(`${root}/${folder}`, python.toPy(later));
  const plain = (proxy) => { const value = proxy.toJs({ dict_converter: Object.fromEntries }); proxy.destroy(); return value; };
  const load = async (bundle) => {
    postMessage({ load: bundle });
    unpack(await new Promise((arrived, failed) => (asked[bundle] = { arrived, failed })));
  };
  return async ({ run, source, whole }) => {
    const emit = (output) => postMessage({ output: output.toJs({ dict_converter: Object.fromEntries }), of: run });
    postMessage({ done: run, ...plain(await page.run(source, emit, load, run, whole)) });
  };
};

let run;
self.onmessage = async ({ data }) => {
  try {
    if (data.start) {
      run = await start(data.start);
      postMessage({ ready: true });
    } else if (data.bundle) {
      if (data.files) asked[data.bundle].arrived(data.files);
      else asked[data.bundle].failed(new Error(`${data.bundle} could not be loaded`));
    } else await run(data);
  } catch (error) {
    postMessage({ dead: String(error).trim().split("\n").pop().slice(0, 300) });
  }
};
