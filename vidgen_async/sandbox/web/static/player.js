// The video of one task, inline. The player keeps the link with which it was started: every poll returns a newly signed
// link, and a player with a new link starts from the beginning.

import { setText } from "./dom.js";

export class Player {
  constructor(refs, taskId, onOpen) {
    this.refs = refs;
    this.taskId = taskId;
    this.onOpen = onOpen;
    this.video = null;
    this.url = null;
    refs.play.setAttribute("aria-label", `Play the video of task ${taskId}`);
    refs.file.href = `/sandbox/console/videos/${encodeURIComponent(taskId)}`;
    refs.play.addEventListener("click", () => this.play());
    refs.again.addEventListener("click", () => this.play());
    refs.stop.addEventListener("click", () => {
      this.close();
      refs.play.focus();
    });
  }

  /** `url` is the latest link; null while there is none. */
  show(url) {
    this.url = url;
    this.refs.play.hidden = !url;
  }

  play() {
    this.close();
    if (!/^https?:\/\//.test(this.url ?? "")) return;
    const video = document.createElement("video");
    video.controls = true;
    video.muted = true;
    video.playsInline = true;
    video.setAttribute("aria-label", `Video of task ${this.taskId}`);
    video.addEventListener("error", () => this.#showProblem(video));
    video.addEventListener("waiting", () => setText(this.refs.videoProblem, ""));
    video.src = this.url;
    this.video = video;
    this.refs.screen.replaceChildren(video);
    this.refs.player.hidden = false;
    this.onOpen();
    video.play().catch(() => {}); // the error event reports it, or the user presses play
  }

  close() {
    this.video?.pause();
    this.video?.removeAttribute("src");
    this.video?.load();
    this.video = null;
    this.refs.player.hidden = true;
    this.refs.again.hidden = true;
    setText(this.refs.videoProblem, "");
    this.refs.screen.replaceChildren();
  }

  #showProblem(video) {
    if (video !== this.video) return;
    const { origin } = new URL(video.currentSrc || video.src);
    setText(this.refs.videoProblem, `The video could not be loaded from ${origin}: the link may have expired, or there was a fault.`);
    this.refs.again.hidden = false;
  }
}
