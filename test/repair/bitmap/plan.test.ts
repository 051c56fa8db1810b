import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { Service } from '../../../src/kube/resources.ts'
import { Bitmap } from '../../../src/net/bitmap.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { clusterIpClaims, nodePortClaims, type RangeClaims } from '../../../src/repair/bitmap/claims.ts'
import {
  dueLeaks,
  type LeakLedger,
  noLeaks,
  passFindings,
  planRange,
  type RangeReading,
  readRange,
  seenByPass,
  stillTaken,
} from '../../../src/repair/bitmap/plan.ts'
import type { RangeContent, StoredRange } from '../../../src/repair/registries/range-registry.ts'
import { atOnce } from '../../../src/runtime/steps.ts'
import { someServices } from './samples.ts'
import { wholePass } from './whole-pass.ts'

const size = 16
const bits = (...numbers: readonly number[]): Bitmap => {
  const bitmap = new Bitmap(size)
  for (const number of numbers) bitmap.add(number)
  return bitmap
}

/** A ledger that has seen the same numbers at each of these times. */
function seen(times: readonly number[], ...numbers: readonly number[]): LeakLedger {
  return times.reduce((ledger, nowMs) => seenByPass(ledger, bits(...numbers), nowMs), noLeaks)
}

const due = (ledger: LeakLedger, nowMs: number): readonly number[] => [...dueLeaks(ledger, size, nowMs)]

test('a leak is due in the third pass that finds it', () => {
  assert.deepEqual(due(seen([0, 180_000], 3), 180_000), [])
  assert.deepEqual(due(seen([0, 180_000, 360_000], 3), 360_000), [3])
})

test('a leak is not due before two minutes', () => {
  const ledger = seen([0, 10_000, 20_000, 30_000], 3)
  assert.deepEqual(due(ledger, 119_999), [])
  assert.deepEqual(due(ledger, 120_000), [3])
})

test('each leaked number becomes due in its own time', () => {
  let ledger = seen([0, 60_000], 3)
  ledger = seenByPass(ledger, bits(3, 4), 120_000)
  assert.deepEqual(due(ledger, 120_000), [3])
  ledger = seenByPass(ledger, bits(3, 4), 180_000)
  ledger = seenByPass(ledger, bits(3, 4), 240_000)
  assert.deepEqual(due(ledger, 240_000), [3, 4])
})

test('a number that one pass does not find leaked starts anew', () => {
  let ledger = seen([0, 60_000], 3, 4)
  ledger = seenByPass(ledger, bits(4), 120_000)
  ledger = seenByPass(ledger, bits(3, 4), 180_000)
  assert.deepEqual(due(ledger, 180_000), [4])
})

test('a number that was released in between starts anew', () => {
  let ledger = seen([0, 60_000], 3, 4)
  ledger = stillTaken(stillTaken(ledger, bits(4, 5)), bits(3, 4))
  ledger = seenByPass(ledger, bits(3, 4), 180_000)
  assert.deepEqual(due(ledger, 400_000), [4])
})

test('leaks that are never freed do not make the ledger grow', () => {
  let ledger = noLeaks
  for (let pass = 0; pass < 50; pass++) {
    const numbers = Array.from({ length: Math.min(pass, size) }, (_, i) => i)
    ledger = seenByPass(ledger, bits(...numbers), pass * 60_000)
  }
  assert.equal(ledger.length, 1)
  assert.equal(due(ledger, 50 * 60_000).length, size)
})

test('the given numbers are not modified', () => {
  const given = bits(3)
  const ledger = seenByPass(seenByPass(noLeaks, given, 0), given, 1)
  stillTaken(ledger, bits())
  assert.deepEqual([...given], [3])
  assert.deepEqual([...(ledger[0]?.numbers ?? [])], [3])
})

const kinds: Readonly<Record<string, RangeClaims>> = {
  NodePorts: nodePortClaims(parsePortRange('30000-30015')),
  'ClusterIPs of one family': clusterIpClaims([parseCidr('10.0.0.0/28')]),
  'ClusterIPs of two families': clusterIpClaims([parseCidr('fd00::/124'), parseCidr('10.0.0.0/28')]),
}

/** The items that a range holds. The model knows no numbers. */
type Items = ReadonlySet<string>

function itemsOf(claims: RangeClaims, range: number, bitmap: Bitmap): Items {
  return new Set([...bitmap].map((offset) => claims.ranges[range]?.textAt(offset) as string))
}

/** All items of a range, written without the code under test. */
function allItems(text: string): readonly string[] {
  const numbers = (first: number, count: number): readonly number[] =>
    Array.from({ length: count }, (_, i) => first + i)
  if (text === '30000-30015') return numbers(30_000, 16).map(String)
  if (text === '10.0.0.0/28') return numbers(1, 14).map((last) => `10.0.0.${last}`)
  return numbers(1, 15).map((last) => `fd00::${last.toString(16)}`)
}

/** The items that a Service claims, each as often as it claims it. The samples' sloppy forms are written out. */
function claimed({ kind }: RangeClaims, { spec }: Service): readonly string[] {
  const sloppy: Readonly<Record<string, string>> = { '10.0.0.03': '10.0.0.3', '::ffff:10.0.0.4': '10.0.0.4' }
  if (kind === 'cluster-ip') {
    return spec?.clusterIP === 'None' || spec?.clusterIP === ''
      ? []
      : (spec?.clusterIPs ?? []).map((ip) => sloppy[ip] ?? ip)
  }
  const all = (spec?.ports ?? []).map(({ nodePort, protocol }) => [nodePort, protocol])
  if (spec?.healthCheckNodePort !== undefined) all.push([spec.healthCheckNodePort, 'TCP'])
  // A port counts once, and once more for each time that a protocol repeats it.
  return all.flatMap(([port, protocol], index) => {
    const before = all.slice(0, index).filter(([other]) => other === port)
    const again = before.some(([, other]) => other === protocol)
    return port === undefined || (before.length > 0 && !again) ? [] : [String(port)]
  })
}

const contents = fc.record({
  numbers: fc.array(fc.integer({ min: 0, max: 13 })),
  absent: fc.boolean(),
})

function read(claims: RangeClaims, range: number, stored: StoredRange): RangeReading {
  const held = claims.ranges[range]
  assert.ok(held)
  return readRange(held, stored, { claims, where: 'here', adopt: false })
}

function asStored(content: RangeContent): StoredRange {
  return { ...content, type: 'range', revision: '1', version: 1 }
}

for (const [name, claims] of Object.entries(kinds)) {
  describe(name, () => {
    const cases = fc.record({ services: someServices, starts: fc.array(contents, { minLength: 2, maxLength: 2 }) })

    function start(
      starts: readonly { readonly numbers: readonly number[]; readonly absent: boolean }[],
    ): StoredRange[] {
      return claims.ranges.map(({ text, size }, range): StoredRange => {
        const { numbers, absent } = starts[range] as (typeof starts)[number]
        if (absent) return { type: 'absent' }
        const bitmap = new Bitmap(size)
        for (const number of numbers) bitmap.add(number)
        return asStored({ range: text, data: bitmap.toBytes() })
      })
    }

    test('three passes give the result of a naive model, and one more pass changes nothing', () => {
      fc.assert(
        fc.property(cases, ({ services, starts }) => {
          let stored = start(starts)
          let ledgers: readonly LeakLedger[] = []
          for (const nowMs of [0, 180_000, 360_000, 360_000]) {
            const readings = stored.map((one, range) => read(claims, range, one))
            const pass = wholePass({ claims, services, readings, ledgers, nowMs })
            const held = services.flatMap((service) => claimed(claims, service))
            pass.ranges.forEach((plan, range) => {
              assert.ok(plan.type === 'range')
              const { text } = claims.ranges[range] as (typeof claims.ranges)[number]
              const before = readings[range]
              assert.ok(before?.type === 'taken')
              const had = itemsOf(claims, range, before.set)
              const holds = allItems(text).filter((item) => held.includes(item))
              const old = nowMs === 360_000
              const expected = allItems(text).filter((item) => holds.includes(item) || (!old && had.has(item)))
              assert.deepEqual([...itemsOf(claims, range, plan.taken)], expected)
              assert.deepEqual(
                [...itemsOf(claims, range, plan.missing)],
                holds.filter((item) => !had.has(item)),
              )
              // The plan never frees what a Service holds.
              for (const item of itemsOf(claims, range, plan.leaked)) assert.ok(!held.includes(item))
            })
            const inRange = claims.ranges.flatMap(({ text }) => allItems(text))
            const duplicates = held.filter((item, index) => inRange.includes(item) && held.indexOf(item) !== index)
            const counts = (type: string): number => pass.findings.filter((finding) => finding.type === type).length
            assert.equal(counts('duplicate'), duplicates.length)
            assert.equal(
              counts('outOfRange') + counts('invalid'),
              held.filter((item) => !inRange.includes(item)).length,
            )
            stored = pass.ranges.map((plan, range) => {
              assert.ok(plan.type === 'range')
              return asStored({ range: claims.ranges[range]?.text ?? '', data: plan.taken.toBytes() })
            })
            ledgers = pass.ranges.map(({ ledger }) => ledger)
          }
          const readings = stored.map((one, range) => read(claims, range, one))
          const again = wholePass({ claims, services, readings, ledgers, nowMs: 360_000 })
          for (const plan of again.ranges) assert.equal(plan.type === 'range' && plan.changed, false)
        }),
        { numRuns: 500 },
      )
    })

    test('the findings do not depend on the order of the Services', () => {
      fc.assert(
        fc.property(someServices, fc.infiniteStream(fc.nat()), (services, keys) => {
          const order = services.map((service) => ({ service, key: keys.next().value as number }))
          const shuffled = order.sort((a, b) => a.key - b.key).map(({ service }) => service)
          const found = (list: readonly Service[]): readonly string[] =>
            atOnce(passFindings(list, claims))
              .map(({ reason, item, regarding }) => `${reason} ${item} ${regarding?.metadata?.name}`)
              .sort()
          assert.deepEqual(found(shuffled), found(services))
        }),
      )
    })
  })
}

test('a duplicate number belongs to the oldest Service, and among equally old ones to the first by name', () => {
  const claims = nodePortClaims(parsePortRange('30000-30015'))
  const service = (namespace: string, name: string, second: number): Service =>
    ({
      metadata: { namespace, name, creationTimestamp: `2026-01-01T00:00:0${second}Z` },
      spec: { ports: [{ port: 80, nodePort: 30_001, protocol: 'TCP' }] },
    }) as Service
  const services = [service('b', 'a', 1), service('a', 'z', 2), service('a', 'b', 1), service('b', 'b', 1)]
  assert.deepEqual(
    atOnce(passFindings(services, claims)).map(({ type, note, regarding }) => [
      type,
      note,
      `${regarding?.metadata?.namespace}/${regarding?.metadata?.name}`,
    ]),
    ['b/a', 'b/b', 'a/z'].map((name) => [
      'duplicate',
      'Port 30001 was assigned to multiple services; please recreate service',
      name,
    ]),
  )
})

test('leaks found in another range do not count for an adopted range', () => {
  const claims = nodePortClaims(parsePortRange('30000-30015'))
  const [held] = claims.ranges
  assert.ok(held)
  const stored = asStored({ range: '29999-30014', data: new Uint8Array([0b100]) })
  const reading = readRange(held, stored, { claims, where: 'here', adopt: true })
  const numbers = new Bitmap(held.size)
  numbers.add(1)
  const ledger = [{ numbers, sinceMs: 0, passes: 5 }]
  const plan = planRange({ reading, held: new Bitmap(held.size), ledger, nowMs: 500_000 })
  assert.ok(plan.type === 'range')
  assert.deepEqual([[...plan.taken], [...plan.leaked], plan.changed], [[1], [], true])
})

test('due leaks remain in the ledger until a state of the range shows that they were freed', () => {
  const claims = nodePortClaims(parsePortRange('30000-30015'))
  const [held] = claims.ranges
  assert.ok(held)
  const stored = asStored({ range: '30000-30015', data: new Uint8Array([0b110]) })
  const reading = readRange(held, stored, { claims, where: 'here', adopt: false })
  const of = (offset: number): Bitmap => {
    const numbers = new Bitmap(held.size)
    numbers.add(offset)
    return numbers
  }
  const ledger = [
    { numbers: of(1), sinceMs: 0, passes: 5 },
    { numbers: of(2), sinceMs: 400_000, passes: 5 },
  ]
  const plan = planRange({ reading, held: new Bitmap(held.size), ledger, nowMs: 500_000 })
  assert.ok(plan.type === 'range')
  assert.deepEqual([...plan.leaked], [1])
  const leaks = (left: LeakLedger) => left.map(({ numbers }) => [...numbers])
  assert.deepEqual(leaks(plan.ledger), [[1], [2]])
  assert.deepEqual(leaks(stillTaken(plan.ledger, plan.taken)), [[2]])
})
