/** Who asks, as far as the connection and the request say. */
export interface HealthCaller {
  /** Of the `Authorization` header. */
  readonly bearerToken: string | undefined
  /** Of a client certificate that was checked against the authorities. */
  readonly certificate: { readonly user: string; readonly groups: readonly string[] } | undefined
}

/** Whether a caller may have what it asks for, or why not; each is an HTTP status. */
export type HealthVerdict =
  | 200
  /** Not known who asks. */
  | 401
  /** Known, and not allowed. */
  | 403
  /** Too many unknown callers at the moment. */
  | 429
  /** Known, and nobody could say whether it is allowed. */
  | 500

/** Decides who may see what is not for everybody: the metrics, and why a check fails. Never rejects. */
export interface HealthAccess {
  /** `verb` is the method in lower case, `path` is without the query. */
  judge(caller: HealthCaller, request: { readonly verb: string; readonly path: string }): Promise<HealthVerdict>
}

/** Whether one of the patterns is the path, or begins it and ends in `*`: as in kube-apiserver's `--authorization-always-allow-paths`. */
export function isAlwaysAllowed(path: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern))
}
