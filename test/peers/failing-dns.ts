import dns from 'node:dns'
import { readFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

// Loaded before a program (`--import`). The file `state`, a parameter in the URL of this module, decides how the name
// `localhost` is resolved: `answers` with 127.0.0.1, `fails` at once, `denies` that the name exists, or `hangs` for
// 10 s before it fails.

type Answer = (error: Error | null, addresses: readonly dns.LookupAddress[]) => void

const state = new URL(import.meta.url).searchParams.get('state') ?? ''
const real = dns.lookup as (...args: unknown[]) => void
const lookup = (hostname: string, options: object, answer: Answer): void => {
  if (hostname !== 'localhost') {
    real(hostname, options, answer)
    return
  }
  const now = readFileSync(state, 'utf8')
  const code = now === 'denies' ? 'ENOTFOUND' : 'EAI_AGAIN'
  const failure = Object.assign(new Error(`getaddrinfo ${code} ${hostname}`), { code })
  if (now === 'answers') setImmediate(answer, null, [{ address: '127.0.0.1', family: 4 }])
  else setTimeout(answer, now === 'hangs' ? 10_000 : 0, failure, [])
}
Object.assign(dns, { lookup })
syncBuiltinESMExports()
