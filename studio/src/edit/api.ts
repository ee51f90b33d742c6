// Requests to the server. Each request contains all data that its task needs.

export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly found: any,
  ) {
    super(message);
  }
}

/** Runs a task of the server; throws a `Refusal` if the task fails. */
export async function ask<Found>(task: string, body: object): Promise<Found> {
  let answer: Response;
  try {
    answer = await fetch(`api/${task}${location.search}`, { method: "POST", body: JSON.stringify(body) });
  } catch {
    throw new Refusal("modelflow edit does not answer. It may have ended. Your text is still in this page", 0, null);
  }
  let found;
  try {
    found = await answer.json();
  } catch {
    throw new Refusal(`modelflow edit answered ${answer.status} without a message`, answer.status, null);
  }
  if (answer.ok) return found;
  const said = typeof found.error === "string" ? found.error : found.error?.message;
  throw new Refusal(said ?? `the server answered ${answer.status}`, answer.status, found);
}
