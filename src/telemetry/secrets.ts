const REDACTED = '[redacted]'

/** Secrets with fewer characters are not redacted, because that would remove ordinary words. */
const SHORTEST = 8
/** The most secrets that are held: enough for a day of hourly tokens and the lines of a few keys. */
const MOST = 500

/**
 * The loaded secrets: tokens, passwords, the lines of private keys; the newest last. One set for the process, because
 * no log line of any part may contain a secret that another part loaded.
 */
const known = new Set<string>()

/** Texts that resemble secrets, whatever their source. */
const patterns: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  // The header lines of an old key contain hyphens. A truncated key has no END line, so the rest of the text is
  // redacted.
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/gs, REDACTED],
  // The user and password in a URL, up to the last at sign, because passwords may contain unescaped at signs. Passwords
  // may contain quotation marks too, but a quotation mark after a port ends the URL.
  [/(:\/\/)(?:[^\s"'<>]{0,500}|[^\s"'<>:/@]{0,200}:(?!\d{1,5}["'/])[^\s<>]{0,500})@/g, `$1${REDACTED}@`],
  [/\b(Bearer|Basic) +[^\s"',;]+/gi, `$1 ${REDACTED}`],
  // A JSON Web Token, or the beginning of one.
  [/\beyJ[\w-]{8,}[\w.-]*/g, REDACTED],
  // A colon and a blank precede ordinary words, not secrets, as in "token: permission denied".
  [/(password|passwd|secret|token|api[-_]?key)(["']?\s*=\s*["']?|["']?:\s*["']|:)[^\s"',;&]{4,}/gi, `$1$2${REDACTED}`],
]

/** Registers a secret (of PEM, each line), so that `withoutSecrets` removes it from all texts. Ignores short ones. */
export function addSecret(secret: string | undefined): void {
  for (const line of secret?.split('\n') ?? []) {
    const text = line.trim()
    if (text.length < SHORTEST || text.startsWith('-----')) continue
    known.delete(text)
    known.add(text)
  }
  for (const oldest of known) {
    if (known.size <= MOST) break
    known.delete(oldest)
  }
}

/** `text` with `[redacted]` for every registered secret and for texts that resemble one. Takes linear time. */
export function withoutSecrets(text: string): string {
  let clean = text
  for (const secret of known) clean = clean.replaceAll(secret, REDACTED)
  for (const [pattern, replacement] of patterns) clean = clean.replace(pattern, replacement)
  return clean
}

/**
 * Foreign text as one printable line of at most `most` characters, without secrets. Secrets are removed before the text
 * is cut, because the first half of a secret would not be recognized.
 */
export function oneLine(text: string, most = 500): string {
  const line = withoutSecrets(text)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are to be removed
    .replace(/[\s\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
    .trim()
  return line.length > most ? `${line.slice(0, most)}…` : line
}

/** The names of fields with secret contents, in lower case without dashes and underscores. */
const secretFields: ReadonlySet<string> = new Set([
  'authorization',
  'proxyauthorization',
  'token',
  'accesstoken',
  'bearertoken',
  'idtoken',
  'refreshtoken',
  'clientkey',
  'clientkeydata',
  'clientsecret',
  'privatekey',
  'password',
])

/** A replacer for `JSON.stringify`. Redacts the values of {@link secretFields}, and secrets in texts, at any depth. */
export function redacting(field: string, value: unknown): unknown {
  if (secretFields.has(field.toLowerCase().replace(/[-_]/g, ''))) return REDACTED
  return typeof value === 'string' ? withoutSecrets(value) : value
}
