// Follows a running job without loading the page anew.  The page works without this.
const shown = document.querySelector("[data-job]");

async function follow(base, name) {
  try {
    const answer = await fetch(`${base}/progress/${name}`, { redirect: "error" });
    if (answer.status === 200) {
      shown.innerHTML = await answer.text(); // escaped by the server, and no script runs here
      setTimeout(follow, 700, base, name);
    } else if (answer.status === 204) location.replace(location.href);
    else throw new Error();
  } catch {
    shown.textContent = "The page has ended. Start it again: your answers are kept, and the ledger says what was spent.";
  }
}

if (shown) follow(document.querySelector("script").src.replace(/\/static\/page\.js$/, ""), shown.dataset.job);
