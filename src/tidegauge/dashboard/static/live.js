// Times in the viewer's zone, and pages that follow the ledger. Every page works without this.
"use strict";

function showTimes(root) {
  for (const time of root.querySelectorAll("time:not(.ago):not([data-shown])")) {
    const moment = new Date(time.dateTime);
    const two = (number) => String(number).padStart(2, "0");
    const day = [moment.getFullYear(), two(moment.getMonth() + 1), two(moment.getDate())].join("-");
    time.textContent = day + " " + [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":");
    time.dataset.shown = "";
  }
}

const main = document.getElementById("main");
let fetching = null;

// Takes the page's live part anew; what is open, marked or focused stays so.
async function refresh(address) {
  if (main.querySelector("form[data-keep]")) return; // somebody may be writing into it
  if (fetching) fetching.abort();
  const mine = (fetching = new AbortController());
  main.classList.add("loading");
  try {
    const answer = await fetch(address, { headers: { "X-Tidegauge-Part": "1" }, signal: mine.signal });
    if (answer.status === 401) return location.reload();
    const text = await answer.text();
    const open = new Set([...main.querySelectorAll("details[open]")].map((one) => one.id));
    const closed = new Set([...main.querySelectorAll("details:not([open])")].map((one) => one.id));
    const links = [...main.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const focused = at < 0 ? null : links[at].getAttribute("href");
    const scrolled = [...main.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
    main.innerHTML = text;
    showTimes(main);
    main.querySelectorAll("details").forEach((one) => {
      if (open.has(one.id)) one.open = true;
      if (closed.has(one.id)) one.open = false;
    });
    main.querySelectorAll(".scroll").forEach((one, index) => {
      if (scrolled[index]) [one.scrollLeft, one.scrollTop] = scrolled[index];
    });
    if (focused !== null) {
      const same = [...main.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused);
      if (same) same.focus({ preventScroll: true });
    }
    if (location.hash) {
      // An element that is new is not the target until it is named again.
      const hash = location.hash, x = scrollX, y = scrollY;
      history.replaceState(null, "", location.pathname + location.search);
      location.replace(hash);
      scrollTo(x, y);
    }
  } catch (error) {
    if (error.name !== "AbortError") say("off", "not connected");
  } finally {
    if (fetching === mine) { fetching = null; main.classList.remove("loading"); }
  }
}

function say(state, text) {
  const live = document.getElementById("live");
  if (live) { live.className = state; live.textContent = text; }
}

function follow(events) {
  const source = new EventSource(events);
  let lost = false;
  source.addEventListener("open", () => {
    say("on", "live");
    if (lost) refresh(location.href);
    lost = false;
  });
  source.addEventListener("error", () => { lost = true; say("off", "not connected"); });
  source.addEventListener("changed", () => refresh(location.href));
  // Lags grow though nothing happens.
  setInterval(() => { if (!document.hidden && !lost) refresh(location.href); }, 30000);
}

for (const form of document.querySelectorAll("form[data-instant]")) {
  let soon = 0;
  const find = () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const address = form.getAttribute("action") + (query.size ? "?" + query : "");
    history.replaceState(null, "", address);
    refresh(address);
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); find(); });
  form.addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(find, 150); });
}

showTimes(document);
if (document.body.dataset.events) follow(document.body.dataset.events);
