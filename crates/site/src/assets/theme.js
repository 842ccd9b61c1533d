try { const t = localStorage.getItem("opm-theme"); if (t === "light" || t === "dark") document.documentElement.dataset.theme = t; } catch {}
document.documentElement.classList.add("js");
