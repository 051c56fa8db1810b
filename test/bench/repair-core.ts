import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { widePortRange } from './repair-core-objects.ts'
import { median, type Report, shown } from './report.ts'

const services = 100_000

/** What one run of repair-core-run.ts reports. */
export interface CoreRun {
  /**
   * From the start of the lists until the informers hold all objects and, with repairs, the first full passes have
   * ended.
   */
  readonly startCpuMs: number
  /** Of one full pass of each repair, for each later interval; empty without repairs. */
  readonly passCpuMs: readonly number[]
  /** In use after a garbage collection: after the start, and after the later passes. */
  readonly bytes: { readonly start: number; readonly later: number }
}

/** What a full pass over 100,000 Services costs in this process, without the API server. */
export async function measureRepairCore({ rounds }: { readonly rounds: number }): Promise<Report> {
  const informers: CoreRun[] = []
  const repairs: CoreRun[] = []
  for (let round = 0; round < rounds; round++) {
    informers.push(await run('informers'))
    repairs.push(await run('repairs'))
    console.error(`repair-core ${round + 1}/${rounds}`)
  }
  const lists = informers.map(({ startCpuMs }) => startCpuMs)
  const starts = repairs.map(({ startCpuMs }, round) => startCpuMs - (lists[round] ?? Number.NaN))
  const passes = repairs.flatMap(({ passCpuMs }) => passCpuMs)
  const bytes = (when: 'start' | 'later', runs: readonly CoreRun[]): number[] =>
    runs.map((each) => each.bytes[when] / services)
  const beyond = (when: 'start' | 'later'): number[] => {
    const without = bytes(when, informers)
    return bytes(when, repairs).map((each, round) => each - (without[round] ?? Number.NaN))
  }
  const row = (name: string, values: readonly number[]): readonly string[] => [
    name,
    shown(median(values)),
    shown(Math.max(...values)),
  ]
  return {
    title: 'Repair: 100,000 Services in-process',
    method:
      `${rounds} rounds, each in processes of its own: informers of 100,000 Services (every second one with a NodePort, from ${widePortRange}) and their IPAddresses, with and without the repairs of ` +
      'IPAddresses, ClusterIP bitmap and NodePort bitmap on top. The API is in the same process and at rest; each object is parsed from JSON as it is sent. ' +
      '"First pass": CPU of the start with the repairs less that without, so that what they do while the lists come counts. Memory: heap and buffers after a collection; "young": within the first minute, in which ages of IPAddresses are tracked.',
    header: ['', 'median', 'most'],
    rows: [
      row('CPU of the lists alone, ms', lists),
      row('CPU of the first full pass of all three, ms', starts),
      row('CPU of a later full pass of all three, ms', passes),
      row('what the informers keep, bytes a Service', bytes('later', informers)),
      row('what the repairs keep beyond it, bytes a Service', beyond('later')),
      row('the same, young', beyond('start')),
    ],
    bounds: [
      { name: 'CPU of the first full pass, median', value: median(starts), limit: 1000, unit: 'ms' },
      { name: 'CPU of a later full pass, most', value: Math.max(...passes), limit: 1000, unit: 'ms' },
      {
        name: 'beyond the informers’ objects, the most',
        value: Math.max(...beyond('later'), ...beyond('start')),
        limit: 300,
        unit: 'bytes a Service',
      },
    ],
  }
}

async function run(kind: 'informers' | 'repairs'): Promise<CoreRun> {
  const script = fileURLToPath(new URL('repair-core-run.ts', import.meta.url))
  const child = spawn(process.execPath, ['--expose-gc', script, kind, String(services)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`repair-core-run.ts ${kind} failed`)
  return JSON.parse(output) as CoreRun
}
