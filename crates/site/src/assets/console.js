// @ts-check
// What pages do beyond being read. Every page works without this file.
(() => {
  "use strict";
  const root = document.documentElement, here = root.dataset.root || "./", page = root.dataset.page, files = root.dataset.files === "1";
  const $ = (id) => document.getElementById(id);
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const stored = (key, value) => {
    try {
      if (value === undefined) return localStorage.getItem(key);
      localStorage.setItem(key, value);
    } catch { /* Settings last for the page then. */ }
    return null;
  };

  // Theme: as the system has it, light, dark.
  const tool = (id, words, attributes = {}) => {
    const button = make("button", { type: "button", class: "tool", id, ...attributes }, words);
    document.querySelector(".tools").append(button);
    return button;
  };
  const themes = ["system", "light", "dark"], theme = tool("theme", "Theme");
  const showTheme = () => {
    const label = { light: "Light", dark: "Dark" }[root.dataset.theme] || "Auto";
    theme.textContent = label;
    theme.setAttribute("aria-label", `Theme: ${label}`);
  };
  showTheme();
  theme.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "system") + 1) % 3];
    if (next === "system") delete root.dataset.theme; else root.dataset.theme = next;
    stored("opm-theme", next);
    showTheme();
  });

  // Dates get how long ago they are.
  const ago = (/** @type {string} */ day) => {
    const days = Math.floor((Date.now() - Date.parse(day)) / 864e5);
    if (!(days >= 0)) return "";
    if (days < 1) return "today";
    const [number, unit] = days < 31 ? [days, "day"] : days < 365 ? [Math.floor(days / 30.4), "month"] : [Math.floor(days / 365.25) || 1, "year"];
    return new Intl.RelativeTimeFormat("en").format(-number, /** @type {any} */ (unit));
  };
  for (const time of all("time")) {
    const words = ago(time.textContent || "");
    time.setAttribute("datetime", time.textContent || "");
    time.setAttribute("title", words);
    if (words && time.closest(".hero, .facts, table")) time.append(` (${words})`);
  }

  // What is the same on all files stands in the index.
  const facts = files && /** @type {any} */ (window).opmIndex;
  if (facts) {
    const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`, foot = document.querySelector(".foot");
    foot.prepend(make("p", {}, [count(facts.packages, "package"), count(facts.channels, "channel"), count(facts.bundles, "version")].join(" · ")));
    foot.lastElementChild.prepend("Revision ", make("code", {}, facts.revision), " · ");
    if (facts.problems) document.querySelector(".sections a[href*=problems]").append(" ", make("span", { class: "badge" }, String(facts.problems)));
  }

  // Copying.
  const announcement = make("p", { class: "vh", role: "status" });
  document.body.append(announcement);
  const copy = async (text, button) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const area = make("textarea");
      /** @type {any} */ (area).value = text;
      document.body.append(area);
      /** @type {any} */ (area).select();
      document.execCommand("copy");
      area.remove();
    }
    announcement.textContent = "copied";
    if (button) { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy"; }, 1500); }
  };
  const copyButton = (text, name) => {
    const button = make("button", { type: "button", class: "copybtn", "aria-label": `Copy ${name}` }, "copy");
    button.addEventListener("click", () => copy(text(), button));
    return button;
  };
  for (const code of all("code.copy")) code.after(copyButton(() => code.textContent, (code.textContent || "").slice(0, 60)));
  if (files) for (const table of all("table.images")) {
    const line = make("p", {}, "All of them: ");
    line.append(copyButton(() => all("th .copy", table).map((one) => one.textContent).join("\n"), "all images"));
    table.parentElement.after(line);
  }
  for (const figure of all("figure.code")) {
    const caption = figure.querySelector("figcaption");
    caption.append(copyButton(() => figure.querySelector("pre").textContent, caption.textContent));
  }

  // Packages: the same ranking as on the server.
  const levels = ["category", "capability", "mode", "feature", "arch", "year", "kube", "state", "provider"];
  const repository = (image) => { const name = image.split("@")[0], at = name.indexOf(":", name.lastIndexOf("/") + 1); return at < 0 ? name : name.slice(0, at); };
  // Only a server has the descriptions.
  const deep = (text) => !files && /(^|\s)in:description(\s|$)/i.test(readQuery(text).words);
  // Lower case is made once for a row, not for each key.
  const lower = (row) => row.low ||= { names: [row.n.toLowerCase(), row.t.toLowerCase()], words: [...row.k, ...row.g].map((one) => one.toLowerCase()), provider: row.p.toLowerCase(), short: row.s.toLowerCase() };
  const score = (row, words) => {
    const low = lower(row);
    let total = row.x ? 100 : 0;
    for (const word of words.toLowerCase().split(/\s+/).filter(Boolean)) {
      const at = word.indexOf(":"), key = at > 0 ? word.slice(0, at) : "", part = word.slice(at + 1);
      const contains = (list, wanted = part) => list.some((one) => one.toLowerCase().includes(wanted));
      const narrowed = { kind: () => contains(row.g), provider: () => low.provider.includes(part), category: () => contains(row.f.category.filter((one) => one !== "Other")), image: () => contains(row.i, repository(part)), is: () => part === "deprecated" && !!row.x, in: () => part === "description" }[key];
      if (narrowed) { if (narrowed()) continue; return null; }
      const names = low.names;
      const atWord = (text) => {
        for (let i = text.indexOf(word); i >= 0; i = text.indexOf(word, i + 1)) if (!/[a-z0-9]$/i.test(text.slice(0, i))) return true;
        return false;
      };
      if (names.includes(word)) total += 0;
      else if (names.some((one) => one.startsWith(word))) total += 1;
      else if (names.some(atWord)) total += 2;
      else if (names.some((one) => one.includes(word))) total += 3;
      else if (low.words.some((one) => one.includes(word))) total += 4;
      else if (low.provider.includes(word)) total += 5;
      else if (low.short.includes(word)) total += 6;
      else return null;
    }
    return total;
  };
  const less = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const find = (rows, query) => {
    const found = { places: /** @type {number[]} */ ([]), counts: {}, hidden: 0 };
    // How well a row fits, its place, and what it is sorted by: made once, not for each comparison.
    const fitting = /** @type {[number, number, string][]} */ ([]);
    const title = (row) => (row.t || row.n).toLowerCase().replace(/^[^\p{L}\p{N}]+/u, "");
    rows.forEach((row, place) => {
      const fits = score(row, query.words);
      if (fits === null) return;
      const misses = levels.filter((facet) => query.chosen[facet]?.size && !(row.f[facet] || []).some((value) => query.chosen[facet].has(value)));
      if (row.h && !query.all) { if (!misses.length) found.hidden++; return; }
      for (const facet of levels) {
        if (!misses.every((missed) => missed === facet)) continue;
        const counts = found.counts[facet] ||= new Map();
        for (const value of row.f[facet] || []) counts.set(value, (counts.get(value) || 0) + 1);
      }
      if (!misses.length) fitting.push([fits, place, title(row)]);
    });
    const byTitle = (a, b) => less(a[2], b[2]) || less(rows[a[1]].n, rows[b[1]].n);
    const orders = { name: byTitle, date: (a, b) => less(rows[b[1]].d, rows[a[1]].d) || byTitle(a, b), versions: (a, b) => rows[b[1]].c - rows[a[1]].c || byTitle(a, b) };
    fitting.sort(orders[query.sort] || ((a, b) => a[0] - b[0] || byTitle(a, b)));
    found.places = fitting.map(([, place]) => place);
    return found;
  };
  const readQuery = (text) => {
    const given = new URLSearchParams(text), chosen = {};
    for (const facet of levels) { const values = given.getAll(facet).filter(Boolean); if (values.length) chosen[facet] = new Set(values); }
    return { words: given.get("q") || "", chosen, sort: given.get("sort") || "", rows: given.get("view") === "rows", all: given.get("all") === "1" };
  };
  /** @type {Promise<any> | null} */
  let loading = null;
  const index = () => loading ||= files ? Promise.resolve(/** @type {any} */ (window).opmIndex) : fetch(`${here}-/d/index.json`).then((reply) => reply.json());
  Object.defineProperty(window, "opmFind", { value: (rows, query) => find(rows, readQuery(query)).places });

  // The list: filters as one types.
  const input = /** @type {HTMLInputElement} */ ($("q")), list = $("list"), tiles = $("tiles");
  input.spellcheck = false;
  input.after(make("kbd", { class: "key", "aria-hidden": "true" }, "/"));
  if (list && tiles) {
    const nodes = new Map(all(".tile", tiles).map((tile) => [+tile.dataset.n, tile]));
    const facets = /** @type {HTMLFormElement} */ (list.querySelector("form.facets"));
    const sort = /** @type {HTMLSelectElement} */ ($("sort")), view = /** @type {HTMLSelectElement} */ ($("view"));
    facets.querySelector("button")?.remove();
    if (matchMedia("(max-width: 900px)").matches) /** @type {HTMLDetailsElement} */ (facets.parentElement).open = false;
    const current = () => {
      const given = new URLSearchParams();
      if (input.value.trim()) given.set("q", input.value.trim());
      for (const box of /** @type {HTMLInputElement[]} */ (all("input[type=checkbox]:checked", facets))) given.append(box.name, box.value);
      const provider = /** @type {HTMLSelectElement} */ (facets.querySelector("select"));
      if (provider?.value) given.set("provider", provider.value);
      if (sort.value) given.set("sort", sort.value);
      if (view.value) given.set("view", view.value);
      if (new URLSearchParams(location.search).get("all")) given.set("all", "1");
      return given.toString();
    };
    const restore = (text) => {
      const query = readQuery(text);
      input.value = query.words;
      for (const box of /** @type {HTMLInputElement[]} */ (all("input[type=checkbox]", facets))) box.checked = !!query.chosen[box.name]?.has(box.value);
      const provider = /** @type {HTMLSelectElement} */ (facets.querySelector("select"));
      if (provider) provider.value = [...(query.chosen.provider || [""])][0];
      sort.value = query.sort;
      view.value = query.rows ? "rows" : "";
    };
    // While one types, tiles below the first screens wait for the paint.
    const screens = 60;
    let below = 0;
    const put = (/** @type {HTMLElement[]} */ shown, typing) => {
      const turn = ++below, now = typing ? screens : shown.length;
      tiles.replaceChildren(...shown.slice(0, now));
      if (now < shown.length) requestAnimationFrame(() => setTimeout(() => { if (turn === below) tiles.append(...shown.slice(now)); }));
    };
    const show = async (text, typing = false) => {
      const data = await index(), query = readQuery(text), found = find(data.rows, query);
      // A list that came in parts holds not all tiles.
      if (nodes.size < data.rows.filter((row) => query.all || !row.h).length && !nodes.has(found.places[0] ?? -1)) { location.search = text; return; }
      list.classList.toggle("rows", query.rows);
      put(found.places.map((place) => nodes.get(place)).filter(Boolean), typing);
      const narrowed = query.words || Object.keys(query.chosen).length;
      $("count").textContent = narrowed ? `${found.places.length} of ${data.rows.length} packages` : `${found.places.length} packages`;
      let none = $("nothing");
      if (!found.places.length && !none) { none = make("div", { class: "note", id: "nothing" }, make("p", {}, "No package fits. Fewer words or filters find more.")); tiles.before(none); }
      if (none) none.hidden = found.places.length > 0;
      for (const box of /** @type {HTMLInputElement[]} */ (all("input[type=checkbox]", facets))) {
        const count = String(found.counts[box.name]?.get(box.value) || 0), small = box.parentElement.querySelector("small");
        if (small.textContent !== count) small.textContent = count;
      }
    };
    let timer = 0;
    const change = (push) => {
      const text = current();
      if (deep(text)) { if (push) location.search = text; return; }
      clearTimeout(timer);
      if (push) history.pushState(null, "", text ? `?${text}` : location.pathname); else timer = window.setTimeout(() => history.replaceState(null, "", text ? `?${text}` : location.pathname), 150);
      show(text, !push);
    };
    input.addEventListener("input", () => change(false));
    input.form.addEventListener("submit", (event) => { event.preventDefault(); change(true); });
    facets.addEventListener("change", () => change(true));
    facets.addEventListener("submit", (event) => { event.preventDefault(); change(true); });
    sort.addEventListener("change", () => change(true));
    view.addEventListener("change", () => change(true));
    window.addEventListener("popstate", () => { if (deep(location.search)) location.reload(); restore(location.search); show(location.search); });
    if (location.search) { restore(location.search); if (files) show(location.search); }
  }

  // Suggestions on every other page.
  if (input && !list) {
    const box = make("ul", { class: "suggest", id: "suggest", role: "listbox", hidden: "" });
    input.after(box);
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-expanded", "false");
    input.setAttribute("aria-controls", "suggest");
    input.setAttribute("aria-autocomplete", "list");
    let chosen = -1;
    const close = () => { box.hidden = true; chosen = -1; input.setAttribute("aria-expanded", "false"); };
    const choose = (to) => {
      const items = all("a", box);
      chosen = (to + items.length) % items.length;
      items.forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
      items[chosen]?.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", items[chosen]?.id || "");
    };
    const end = files ? ".html" : "";
    // Versions of the package that the page is about: from a server, or those that the page of a file has links to.
    /** @type {Promise<[string, string][]> | null} */
    let known = null;
    const versions = () => known ||= (async () => {
      const [own] = location.pathname.slice(new URL(here, location.href).pathname.length).match(/^p\/[^/]+/) || [];
      if (!own) return [];
      if (files) return all("main a[href*='/v/'], main a.ver[href], nav.actions a[rel]").map((link) => [link.textContent.replace(/[←→\s]/g, ""), link.getAttribute("href")]);
      const data = await (await fetch(`${here}-/d/${own}.json`)).json();
      // The server leads from a name as it is to how addresses write it.
      return data.versions.map((one) => [one.version, `${here}${own}/v/${encodeURIComponent(one.name)}`]);
    })().catch(() => []);
    input.addEventListener("input", async () => {
      const typed = input.value, word = typed.trim().toLowerCase();
      if (!word) return close();
      const [data, own] = await Promise.all([index(), versions()]);
      if (input.value !== typed) return;
      const found = find(data.rows, { words: typed, chosen: {}, sort: "", all: true }).places.slice(0, 8).map((place) => [`${here}${data.rows[place].a}${end}`, data.rows[place].t || data.rows[place].n, data.rows[place].n]);
      const kinds = [...new Set(data.rows.flatMap((row) => row.g))].filter((kind) => kind.toLowerCase().startsWith(word)).sort().slice(0, 4);
      found.push(...kinds.map((kind) => [`${here}apis${end}?q=${encodeURIComponent(kind)}`, kind, "kind"]));
      const fitting = new Map(own.filter(([version]) => version.startsWith(word.replace(/^v/, ""))));
      found.push(...[...fitting].slice(0, 4).map(([version, href]) => [href, version, "version of this package"]));
      box.replaceChildren(...found.map(([href, words, small], i) => make("li", { role: "presentation" }, make("a", { href, role: "option", id: `s${i}`, tabindex: "-1", "aria-selected": "false" }, make("span", {}, words), make("small", {}, small)))));
      box.hidden = !found.length;
      input.setAttribute("aria-expanded", String(!!found.length));
      chosen = -1;
    });
    input.addEventListener("keydown", (event) => {
      if (box.hidden) return;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); choose(chosen + (event.key === "ArrowDown" ? 1 : -1)); }
      if (event.key === "Escape") { event.preventDefault(); close(); }
      if (event.key === "Enter" && chosen >= 0) { event.preventDefault(); all("a", box)[chosen].click(); }
    });
    let leaving = 0;
    input.addEventListener("blur", () => { leaving = window.setTimeout(close, 200); });
    input.addEventListener("focus", () => clearTimeout(leaving));
  }

  // Help, and keys that can be switched off.
  const help = tool("help", "Help", { "aria-haspopup": "dialog" });
  const keysOn = () => stored("opm-keys") !== "off";
  const dialog = /** @type {HTMLDialogElement} */ (make("dialog", { "aria-labelledby": "help-title" }));
  const keys = [["/", "Search"], ["?", "This help"], ["g then p, k, i, c, r", "Packages, kinds, images, changes, problems"], ["j, k, ↓, ↑", "Next, previous package in the list"], ["[, ]", "Older, newer version"], ["c", "Compare with the version before"], ["u", "Upgrade path"], ["y", "Copy the name of the bundle"], ["kind: provider: category: image:", "Narrow the search"], ["is:deprecated", "Only what is deprecated"], ["in:description", "Search descriptions, too"]];
  const toggle = /** @type {HTMLInputElement} */ (make("input", { type: "checkbox", id: "keys-on" }));
  toggle.checked = keysOn();
  toggle.addEventListener("change", () => stored("opm-keys", toggle.checked ? "on" : "off"));
  const closeHelp = make("button", { type: "button", class: "button" }, "Close");
  closeHelp.addEventListener("click", () => dialog.close());
  dialog.append(make("h2", { id: "help-title" }, "Keys"), make("dl", {}, ...keys.flatMap(([key, words]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, words)])), make("p", {}, make("label", { for: "keys-on" }, toggle, " Single keys do something")), closeHelp);
  document.body.append(dialog);
  help.addEventListener("click", () => dialog.showModal());
  const go = { p: files ? "index.html" : "", k: "apis", i: "images", c: "changes", r: "problems" };
  if (!document.querySelector(".sections a[href*=changes]")) delete go.c;
  let waiting = false;
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); input.focus(); input.select(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || !keysOn()) return;
    if (target.closest("input, select, textarea, [contenteditable]")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (waiting && event.key in go) { waiting = false; const to = go[event.key]; location.href = here + to + (files && to && !to.includes(".") ? ".html" : ""); return; }
    waiting = event.key === "g";
    const step = { j: [1], k: [-1], ArrowDown: [1, true], ArrowUp: [-1, true] }[event.key];
    if (event.key === "/") { event.preventDefault(); input.focus(); input.select(); }
    else if (event.key === "?") dialog.showModal();
    else if (tiles && step) {
      const links = all(".tile h2 a", tiles), at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
      // Arrows scroll the page until somebody is in the list.
      if (step[1] && at < 0) return;
      event.preventDefault();
      links[Math.max(0, Math.min(links.length - 1, at + step[0]))]?.focus();
    } else if (event.key === "y") { const name = document.querySelector("[data-key=y] code"); if (name) copy(name.textContent, null); }
    else if ("[]cu".includes(event.key)) /** @type {HTMLElement} */ (document.querySelector(`a[data-key="${event.key === "[" ? "[" : event.key}"]`))?.click();
  });

  // Tables are sorted by any column; a third time gives the order of the page back.
  const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0], rows = [...body.rows], heads = all("thead th", table);
    if (rows.length < 2) continue;
    heads.forEach((head, column) => {
      if (head.classList.contains("live")) return;
      const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "" }[head.getAttribute("aria-sort") || ""] ?? "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (next) head.setAttribute("aria-sort", next);
        const text = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim(), way = next === "descending" ? -1 : 1;
        // What is empty stands at the end, whichever way.
        const sorted = next ? [...rows].sort((a, b) => +!text(a) - +!text(b) || way * order.compare(text(a), text(b))) : rows;
        body.append(...sorted);
      });
    });
  }

  // Tables with many rows can be narrowed.
  for (const table of all("table[data-filter]")) {
    const rows = all("tbody tr", table);
    if (rows.length < 12) continue;
    const field = /** @type {HTMLInputElement} */ (make("input", { type: "search", class: "field", placeholder: `Filter ${table.dataset.filter}`, "aria-label": `Filter ${table.dataset.filter}` }));
    const status = make("span", { class: "vh", role: "status" });
    const wrap = make("div", { class: "form" }, field, status);
    table.parentElement.before(wrap);
    const narrow = () => {
      const words = field.value.toLowerCase().split(/\s+/);
      let shown = 0;
      for (const row of rows) { row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word)); if (!row.hidden) shown++; }
      status.textContent = `${shown} of ${rows.length}`;
    };
    field.addEventListener("input", narrow);
    const wanted = files && new URLSearchParams(location.search).get("q");
    if (wanted) { field.value = wanted; narrow(); }
  }

  // The graph: the way of a cluster from an entry.
  if (page === "graph") {
    const way = $("way"), switches = $("switches"), main = $("main");
    if (switches) switches.hidden = false;
    const given = new URLSearchParams(location.search);
    for (const box of /** @type {HTMLInputElement[]} */ (all("#switches input"))) {
      const apply = () => main.classList.toggle(`no-${box.dataset.switch}`, !box.checked);
      if ((given.get("hide") || "").split(",").includes(box.dataset.switch)) { box.checked = false; apply(); }
      box.addEventListener("change", () => { apply(); note(); });
    }
    let hot = null, fixed = null, second = null;
    const name = (row) => row.querySelector(".nam").textContent;
    const label = (row) => (row.querySelector(".ver") || row.querySelector(".nam")).textContent;
    const note = () => {
      const hidden = all("#switches input").filter((box) => !box.checked).map((box) => box.dataset.switch).join(",");
      for (const [key, value] of [["hide", hidden], ["from", fixed ? name(fixed) : ""], ["to", second ? name(second) : ""]]) if (value) given.set(key, value); else given.delete(key);
      history.replaceState(null, "", given.size ? `?${given}` : location.pathname);
    };
    const clear = () => {
      if (hot) { hot.classList.remove("hot"); all(".on", hot).forEach((item) => item.classList.remove("on")); }
      hot = null;
      way.textContent = "";
    };
    const rowsOf = (channel) => all(".e", channel);
    const path = (row, stop) => {
      const rows = rowsOf(row.parentNode), steps = [rows.indexOf(row)];
      for (let at = steps[0]; at !== stop; ) {
        const next = rows[at].dataset.n;
        if (next === undefined || steps.includes(+next)) break;
        at = +next;
        steps.push(at);
      }
      return steps;
    };
    const spans = (text) => text.split(",").map((part) => part.split("-").map(Number));
    const inside = (i, list) => list.some(([first, last = first]) => first <= i && i <= last);
    const show = (row) => {
      clear();
      hot = row.parentNode;
      const rows = rowsOf(hot), stop = second && second.parentNode === hot ? rows.indexOf(second) : -1, steps = path(row, stop);
      steps.forEach((i) => rows[i].classList.add("on"));
      for (const line of all("[data-k]", hot)) {
        const [to, from] = line.dataset.k.split(" ").map(spans);
        if (steps.slice(1).some((next, i) => inside(steps[i], from) && inside(next, to))) line.classList.add("on");
      }
      hot.classList.add("hot");
      const words = steps.length > 1 ? steps.map((i) => label(rows[i])).join(" → ") : `${label(row)}: nothing to upgrade to`;
      way.append(make("code", {}, words));
      if (stop >= 0 && steps.at(-1) !== stop) way.append(` does not reach ${label(second)}`);
      if (fixed === row) {
        const from = encodeURIComponent(name(row)), to = second ? encodeURIComponent(name(second)) : "";
        way.append(" ", make("a", { href: `${way.dataset.path}?from=${from}${to ? `&to=${to}` : ""}` }, "Path"));
        if (to && way.dataset.compare) way.append(" ", make("a", { href: `${way.dataset.compare}?from=${from}&to=${to}` }, "Compare"));
      }
    };
    const pick = (row) => {
      if (fixed && !second && fixed !== row && fixed.parentNode === row.parentNode) second = row; else { fixed = row; second = null; }
      show(fixed);
      note();
    };
    for (const channel of all(".opm .c")) {
      channel.setAttribute("role", "list");
      rowsOf(channel).forEach((row, i) => {
        row.setAttribute("role", "listitem");
        row.setAttribute("aria-label", row.querySelector("title").textContent);
        row.setAttribute("tabindex", i ? "-1" : "0");
        if (name(row) === given.get("from") && !fixed) fixed = row;
        else if (fixed && name(row) === given.get("to") && fixed.parentNode === channel) second = row;
      });
      if (fixed && !second && given.get("to")) second = rowsOf(fixed.parentNode).find((row) => name(row) === given.get("to")) || null;
    }
    if (fixed) show(fixed);
    const rowOf = (event) => event.target.closest?.(".opm .e");
    document.addEventListener("mouseover", (event) => { const row = rowOf(event); if (row && !fixed) show(row); else if (!row && !fixed) clear(); });
    document.addEventListener("focusin", (event) => { const row = rowOf(event); if (row && !fixed) show(row); });
    document.addEventListener("click", (event) => { const row = rowOf(event); if (row) pick(row); });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { fixed = second = null; clear(); note(); }
      const row = rowOf(event), step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!row) return;
      if (step) { event.preventDefault(); const rows = rowsOf(row.parentNode), next = rows[rows.indexOf(row) + step]; if (next) { row.setAttribute("tabindex", "-1"); next.setAttribute("tabindex", "0"); next.focus(); } }
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(row); }
    });
  }

  // The path picker of an export shows the upgrades in its tables: those of the next row (n), or all of them (p).
  const form = /** @type {HTMLFormElement} */ ($("path")), answer = $("answer");
  if (form && answer) {
    const follow = () => {
      const given = new FormData(form), from = String(given.get("from") || "").trim(), to = String(given.get("to") || "").trim();
      const channel = all("details[data-channel]").find((one) => one.dataset.channel === given.get("channel"));
      answer.replaceChildren();
      if (!from || !channel) return;
      const rows = all("tbody tr", channel), label = (row) => row.querySelector("th").textContent;
      let row = rows.find((one) => label(one) === from || from.endsWith(`.v${label(one)}`));
      if (!row) { answer.append(make("div", { class: "note bad" }, make("p", {}, `Channel ${channel.dataset.channel} does not have ${from}.`))); return; }
      const steps = [row];
      while (row.dataset.n !== undefined && label(row) !== to && steps.length <= rows.length) { row = rows[+row.dataset.n]; steps.push(row); }
      for (const next of row.dataset.p?.split(" ") || []) { if (label(steps.at(-1)) === to) break; steps.push(rows[+next]); }
      const arrived = to ? label(steps.at(-1)) === to : !row.dataset.e;
      answer.append(make("h2", {}, arrived ? `${steps.length - 1} steps` : "It does not get there"), make("ol", { class: "steps" }, ...steps.map((one, i) => make("li", i ? {} : { class: "start" }, make("span", { class: "ver" }, label(one))))));
      if (!arrived && row.dataset.e) answer.append(make("div", { class: "note bad" }, ...row.dataset.e.split("\n").map((line) => make("p", {}, line))));
    };
    form.addEventListener("submit", (event) => { event.preventDefault(); follow(); });
    const given = new URLSearchParams(location.search);
    if (given.get("from")) {
      const wanted = given.get("from"), row = all("tbody tr th").find((one) => one.textContent === wanted || wanted.endsWith(`.v${one.textContent}`) || wanted.endsWith(one.textContent));
      form.elements["from"].value = row ? row.textContent : wanted;
      follow();
    }
  }

  // News of the server: only while somebody looks.
  if (!files) {
    const strip = make("p", { class: "strip", id: "live", role: "status", hidden: "" }), known = root.dataset.rev, since = new Date().toTimeString().slice(0, 5);
    document.querySelector("header.top").after(strip);
    /** @type {EventSource | null} */
    let source = null;
    let polling = !("EventSource" in window), timer = 0;
    const followed = () => root.dataset.preview || stored("opm-follow") === "on";
    const button = (words, act) => {
      const made = make("button", { type: "button", class: "button" }, words);
      made.addEventListener("click", act);
      return made;
    };
    const say = (text, ...more) => {
      strip.hidden = !text;
      strip.replaceChildren(text, ...more.flatMap((one) => [" ", one]));
    };
    const place = () => { try { return JSON.parse(sessionStorage.getItem("opm-place") || "null"); } catch { return null; } };
    // Who follows the catalog stays where they are.
    const reload = () => {
      const at = document.activeElement, focus = at?.id ? `#${CSS.escape(at.id)}` : at?.getAttribute("href") ? `a[href="${CSS.escape(at.getAttribute("href"))}"]` : "";
      try { sessionStorage.setItem("opm-place", JSON.stringify({ page: location.href, y: scrollY, focus })); } catch { /* It starts at the top then. */ }
      location.reload();
    };
    const before = place();
    if (before && before.page === location.href) {
      try { sessionStorage.removeItem("opm-place"); } catch { /* Nothing was kept. */ }
      if (before.focus) /** @type {HTMLElement} */ (document.querySelector(before.focus))?.focus({ preventScroll: true });
      scrollTo(0, before.y);
    }
    const hear = async (news) => {
      if (!news.revision) return;
      if (news.revision === known) {
        say((news.state || []).filter((text) => !all(".strip").some((one) => one !== strip && one.textContent === text)).join(" "));
        return;
      }
      if (followed()) return reload();
      const list = document.querySelector(".sections a[href*=changes]");
      let changed = null;
      // What changed is known a moment after that it did.
      for (let tries = list ? 5 : 1; changed === null && tries > 0; tries--) {
        try { changed = (await (await fetch(`${here}-/d/revision.json?since=${known}`)).json()).changed; } catch { break; }
        if (changed === null) await new Promise((done) => setTimeout(done, 200));
      }
      say(changed === null ? "The catalog changed." : `The catalog changed: ${changed} package${changed === 1 ? "" : "s"}.`,
        ...(list ? [make("a", { href: `${list.getAttribute("href")}?since=${known}` }, "Show")] : []),
        button("Reload", () => location.reload()), button("Follow", () => { stored("opm-follow", "on"); reload(); }));
    };
    const lost = () => say(`Not connected to the server, showing ${since}.`);
    const poll = () => {
      clearTimeout(timer);
      if (!document.hidden) timer = window.setTimeout(() => fetch(`${here}-/d/revision.json`).then((reply) => reply.json()).then(hear).catch(lost).finally(poll), 60000);
    };
    const connect = () => {
      if (source || document.hidden) return;
      if (polling) return poll();
      source = new EventSource(`${here}-/events`);
      source.onmessage = (event) => hear(JSON.parse(event.data));
      source.onerror = () => {
        // A server that is full says so once; one that is gone is tried again by the browser.
        if (source?.readyState === 2) { source = null; polling = true; poll(); } else lost();
      };
    };
    const disconnect = () => { clearTimeout(timer); source?.close(); source = null; };
    document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
    window.addEventListener("pagehide", disconnect);
    if (stored("opm-follow") === "on" && !root.dataset.preview) help.before(button("Stop following", (event) => { stored("opm-follow", "off"); /** @type {any} */ (event.target).remove(); }));
    if (document.readyState === "complete") connect(); else window.addEventListener("load", connect);
  }
})();
