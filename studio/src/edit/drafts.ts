// Unsaved texts in the browser's storage: a page that is loaded again continues with its text.

/** An unsaved text, and the mark of the file contents that it changes. */
export interface StoredDraft {
  text: string;
  mark: string;
  time: number; // milliseconds since 1970
}

const keyOf = (file: string) => `modelflow draft ${file}`;

/** Stores an unsaved text, or removes the stored one if `draft` is null. */
export function storeDraft(file: string, draft: StoredDraft | null): void {
  try {
    if (draft) localStorage.setItem(keyOf(file), JSON.stringify(draft));
    else localStorage.removeItem(keyOf(file));
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // the storage is full or switched off: the page itself has the text
  }
}

export function readDraft(file: string): StoredDraft | null {
  try {
    const found = JSON.parse(localStorage.getItem(keyOf(file)) ?? "null");
    return typeof found?.text === "string" && typeof found.mark === "string" ? found : null;
  } catch (error) {
    if (error instanceof DOMException || error instanceof SyntaxError) return null;
    throw error;
  }
}
