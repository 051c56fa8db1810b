const KIB = 1024
const MIB = 1024 * KIB

/**
 * The longest answers that are read, in bytes, by kind of request. Beyond them the connection is closed and the request fails with
 * TooLarge. etcd takes objects of 1.5 MiB; protobuf becomes some two to three times as long in JSON.
 */
export const answerLimits = {
  /** One object. */
  object: 4 * MIB,
  /** One page of a list: 16 KiB for each of 500 objects. Whoever meets it asks for smaller pages. */
  page: 8 * MIB,
  /** A list that is asked for at once: of few objects, or because its pages expire before the last one is read. */
  list: 64 * MIB,
  /** One line of a watch. */
  event: 4 * MIB,
  /** /readyz and its like. kube-apiserver's has a few KiB. */
  text: 256 * KIB,
  /** What explains a status outside 2xx. */
  refusal: MIB,
} as const

/** How many objects to ask for after a page of so many was too long; undefined when there is no less than one. */
export function smallerPage(limit: number): number | undefined {
  return limit > 1 ? Math.ceil(limit / 4) : undefined
}

/** The deepest nesting of JSON that is taken, by the in-process API server too. Kubernetes' own objects stay below 50; the stack holds some 3,000. */
export const deepestNesting = 500
