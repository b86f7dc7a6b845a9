// Ledger and uploads.

import { Rows, copyOf, find, linkTo, setAttribute, setText, setTime } from "./dom.js";
import { ask, carryOut } from "./service.js";
import { bytes, moment, number, signed, span } from "./format.js";

export class Ledger {
  constructor() {
    this.rows = new Rows(find("#ledger table"), ({ key }) => key, () => new LedgerRow());
  }

  show({ ledger, now, isOneAccount }) {
    const counts = new Map();
    const items = ledger.toReversed().map((entry) => {
      const json = JSON.stringify(entry);
      counts.set(json, (counts.get(json) ?? 0) + 1);
      return { entry, now, isOneAccount, key: `${counts.get(json)} ${json}` };
    });
    this.rows.show(items.toReversed());
  }
}

class LedgerRow {
  constructor() {
    Object.assign(this, copyOf("ledger-row"));
  }

  show({ entry, now, isOneAccount }) {
    const { refs } = this;
    setTime(refs.at, moment(entry.at, now));
    setText(refs.kind, entry.kind);
    setText(refs.account, isOneAccount ? "" : entry.account);
    setText(refs.points, signed(entry.points));
    refs.points.className = entry.points > 0 ? "good" : "";
    setText(refs.balance, number(entry.balance));
    linkTo(refs.task, entry.task_id);
  }
}

export class Uploads {
  constructor(refresh) {
    this.rows = new Rows(find("#uploads table"), ({ asset }) => asset.id, (item) => new UploadRow(item, refresh));
  }

  show({ assets, now, isOneAccount }) {
    this.rows.show(assets.map((asset) => ({ asset, now, isOneAccount })));
  }
}

class UploadRow {
  constructor({ asset }, refresh) {
    Object.assign(this, copyOf("upload-row"));
    const { refs } = this;
    refs.remove.setAttribute("aria-label", `Delete ${asset.name}`);
    refs.remove.addEventListener("click", async () => {
      const path = `/sandbox/assets/${encodeURIComponent(asset.id)}`;
      await carryOut(refs.remove, find("#uploads-problem"), () => ask("DELETE", path));
      refresh();
    });
  }

  show({ asset, now, isOneAccount }) {
    const { refs } = this;
    if (!asset.is_expired && asset.url.startsWith("/")) {
      setAttribute(refs.image, "src", asset.url);
      setAttribute(refs.image, "alt", `Upload ${asset.name}`);
      setAttribute(refs.open, "href", asset.url);
    } else {
      refs.open.removeAttribute("href");
    }
    setText(refs.name, asset.name);
    setText(refs.id, asset.id);
    const facts = [asset.mime, bytes(asset.size), isOneAccount ? "" : asset.account];
    setText(refs.kind, facts.filter(Boolean).join(" · "));
    setText(refs.expires, asset.is_expired ? "expired" : `in ${span(asset.expires_at - now)}`);
    refs.expires.classList.toggle("bad", asset.is_expired);
    refs.expires.parentElement.classList.toggle("expired", asset.is_expired);
    setTime(refs.at, moment(asset.expires_at, now));
  }
}
