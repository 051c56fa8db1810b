import dns, { type LookupAddress } from 'node:dns'
import type { TestContext } from 'node:test'

/** Names that end in `.test` have the address 127.0.0.1 until the test ends, except while the lookup `fails`. */
export function failingLookup(t: TestContext): { fails: boolean; asked: number } {
  const system = { fails: false, asked: 0 }
  const real = dns.lookup as (...args: unknown[]) => void
  type Answer = (error: Error | null, addresses?: readonly LookupAddress[]) => void
  t.mock.method(dns, 'lookup', (hostname: string, options: object, answer: Answer) => {
    if (!hostname.endsWith('.test')) {
      real(hostname, options, answer)
      return
    }
    system.asked++
    const failure = Object.assign(new Error(`getaddrinfo EAI_AGAIN ${hostname}`), { code: 'EAI_AGAIN' })
    setImmediate(() => (system.fails ? answer(failure) : answer(null, [{ address: '127.0.0.1', family: 4 }])))
  })
  return system
}
