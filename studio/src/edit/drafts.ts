// Unsaved texts in the browser's storage: a page that is loaded again continues with its text.

/** An unsaved text, and the mark of the file contents that it changes. */
export interface StoredDraft {
  text: string;
  mark: string;
  time: number; // milliseconds since 1970
}

const keyOf = (file: string) => `modelflow draft ${file}`;

// The draft of a tab, and the last one of all tabs for a tab that is opened later.
const STORES = [() => sessionStorage, () => localStorage];

/** Stores an unsaved text, or removes the stored one if `draft` is null. */
export function storeDraft(file: string, draft: StoredDraft | null): void {
  for (const store of STORES) attempt(() => (draft ? store().setItem(keyOf(file), JSON.stringify(draft)) : store().removeItem(keyOf(file))));
}

export function readDraft(file: string): StoredDraft | null {
  for (const store of STORES) {
    const found = attempt(() => JSON.parse(store().getItem(keyOf(file)) ?? "null"));
    if (typeof found?.text === "string" && typeof found.mark === "string") return found;
  }
  return null;
}

function attempt<Found>(step: () => Found): Found | null {
  try {
    return step();
  } catch (error) {
    if (error instanceof DOMException || error instanceof SyntaxError) return null; // the storage is full or switched off: the page itself has the text
    throw error;
  }
}
