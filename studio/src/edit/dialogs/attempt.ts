// The tasks of a dialog: one at a time, with the reason if one fails.

import { useRef, useState } from "preact/hooks";

/** `busy` names the present task, or is "". `problem` is the reason why the last task failed, or "". */
export function useAttempt(first: string) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(first);
  const isBusy = useRef(false);
  const attempt = async (what: string, step: () => Promise<void>) => {
    if (isBusy.current) return; // a second click
    isBusy.current = true;
    setProblem("");
    setBusy(what);
    try {
      await step();
    } catch (error) {
      setProblem((error as Error).message);
    }
    setBusy("");
    isBusy.current = false;
  };
  return { problem, busy, setBusy, attempt };
}
