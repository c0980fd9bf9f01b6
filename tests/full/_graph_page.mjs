// graph_page.py's part in the browser: node _graph_page.mjs PLAYWRIGHT CHROMIUM FOLDER. Leaves pictures in FOLDER.
import {createRequire} from "node:module";
const [,, playwright, executablePath, folder] = process.argv;
const {chromium} = createRequire(import.meta.url)(playwright);
let passed = 0, failed = 0;
const check = (good, what) => { good ? ++passed : ++failed; console.log(`${good ? "ok  " : "FAIL"} ${what}`); };

const browser = await chromium.launch({executablePath, args: ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]});
const context = await browser.newContext({viewport: {width: 1400, height: 900}, offline: true});
const faults = [];
const opened = async name => {
  const page = await context.newPage();
  page.on("pageerror", error => faults.push(String(error)));
  page.on("console", message => { if (message.type() === "error") faults.push(message.text()); });
  page.on("request", request => { if (!request.url().startsWith("file:")) faults.push("asks for " + request.url()); });
  const begin = Date.now();
  await page.goto(`file://${folder}/${name}.html`);
  await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
  return [page, Date.now() - begin];
};
const picture = (page, name) => page.screenshot({path: `${folder}/${name}.png`});

const [page, loading] = await opened("large");
const open = () => page.evaluate(() => graphPage.open.filter((o, i) => o && graphPage.frames[i].layer >= 0).length);
const nodes = await page.evaluate(() => graphPage.nodes.length);
check(nodes >= 10000, `${nodes} boxes`);
check(loading < 5000, `shown after ${loading} ms`);
check(await open() === 0, "every layer is closed at first");
await picture(page, "closed");

// Where a box is in the window.
const where = name => page.evaluate(name => {
  const r = document.getElementById("canvas").getBoundingClientRect();
  const at = graphPage.screen(graphPage.nodes.findIndex(n => n.name === name));
  return {x: r.x + at.x, y: r.y + at.y, middle: Math.hypot(at.x - r.width / 2, at.y - r.height / 2)};
}, name);
const side = () => page.locator("#side").innerText();
await page.keyboard.press("/");
await page.keyboard.type("layers.57.sum_30");
await page.keyboard.press("Enter");
await page.waitForTimeout(500);
check((await where("layers.57.sum_30")).middle < 5, "search brings a node to the middle");
check(await open() === 1, "and opens its layer alone");
check((await side()).startsWith("layers.57.sum_30"), "and shows it beside");
await picture(page, "found");
await page.keyboard.press("Escape");
const below = await where("layers.57.sum_31");
await page.mouse.click(below.x, below.y);
const shows = async (what, parts) => {
  const told = await side();
  for (const part of parts) check(told.includes(part), `${what} shows ${part}`);
};
await shows("a click", ["layers.57.sum_31", "add", "elementwise", "layers.57.sum_30", "layers.57.branch_31", "[T, 8]", "F32", "32 B per T", "layers.57.sum_32"]);
for (const [name, parts] of [["layers.57.branch_31", ["linear", "matrix", "layers.57.norm", "layers.57.w", "[8, 8]", "256 B"]], ["layers.57.norm", ["rms_norm", "eps", "1e-06", "and 9 more"]]]) {
  await page.locator("#side button.go", {hasText: new RegExp(`^${name}$`)}).click();
  await page.waitForTimeout(500);
  check((await where(name)).middle < 5, `in the panel ${name} leads there`);
  await shows("it", [name, ...parts]);
}
await picture(page, "layer");
const norm = await where("layers.57.norm");
await page.mouse.dblclick(norm.x + 60, norm.y - 42);  // above it there is nothing but the layer
await page.waitForTimeout(100);
check(await open() === 0, "two clicks on a layer close it");
check((await side()).includes("99 nodes") || (await side()).includes("100 nodes"), "and its count is shown");

const measured = async (what, act) => {
  await page.evaluate(() => {
    window.times = []; window.measuring = true;
    let last = performance.now();
    const tick = now => { window.times.push(now - last); last = now; if (window.measuring) requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
  });
  await act();
  const {median, most} = await page.evaluate(() => {
    window.measuring = false;
    const t = window.times.slice(2).sort((a, b) => a - b);
    return {median: t[t.length >> 1], most: t[Math.floor(t.length * 0.95)]};
  });
  check(median < 25 && most < 60, `${what}: ${median.toFixed(1)} ms a frame, ${most.toFixed(1)} ms at the 95th percentile`);
};
const drag = async () => {
  await page.mouse.move(500, 500);
  await page.mouse.down();
  for (let i = 0; i < 40; ++i) await page.mouse.move(500 + 4 * i, 500 - 6 * i);
  await page.mouse.up();
};
await measured("closed, drag", drag);
await page.keyboard.press("a");
check(await open() === 100, "all open");
await measured("open, drag", drag);
await picture(page, "open");
await measured("open, wheel outwards", async () => { await page.mouse.move(500, 400); for (let i = 0; i < 25; ++i) { await page.mouse.wheel(0, 200); await page.waitForTimeout(16); } });
await page.keyboard.press("f");
await page.waitForTimeout(500);
await measured("all of it in the window, drag", drag);
await picture(page, "fit");
const heap = await page.evaluate(() => performance.memory.usedJSHeapSize / 2 ** 20);
check(heap < 150, `${heap.toFixed(0)} MiB of heap`);

const [second] = await opened("hostile");
check(await second.evaluate(() => window.hit === undefined && document.images.length === 0 && document.scripts.length === 2), "a name does not become a script");
await second.keyboard.press("/");
await second.keyboard.type("<img");
await second.keyboard.press("Enter");
await second.waitForTimeout(400);
check((await second.locator("#side").innerText()).includes("<img src=x onerror=window.hit=1>\u5c42"), "it is shown as it is");
check(await second.evaluate(() => window.hit === undefined), "still none");
await picture(second, "hostile");
check(faults.length === 0, `no errors, nothing asked of a network ${faults.join("; ")}`);
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
