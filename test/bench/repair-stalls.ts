import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { median, type Report, shown } from './report.ts'

const services = 1_000_000

/** What one run of repair-stalls-run.ts reports. */
export interface StallRun {
  /**
   * The longest time in which the event loop ran nothing else, in milliseconds: from the start to the end of the first
   * passes, in later passes, and in a minute in which 1,000 Services change each second, passes included.
   */
  readonly startMs: number
  readonly passMs: number
  readonly churnMs: number
  /** CPU of one later pass of each repair. */
  readonly passCpuMs: number
  /** In use after a garbage collection. */
  readonly bytes: number
}

/** How long the repairs of a million Services block this process from other work, such as the renewal of its lease. */
export async function measureRepairStalls({ rounds }: { readonly rounds: number }): Promise<Report> {
  const runs: StallRun[] = []
  for (let round = 0; round < rounds; round++) {
    runs.push(await run())
    console.error(`repair-stalls ${round + 1}/${rounds}`)
  }
  const row = (name: string, values: readonly number[]): readonly string[] => [
    name,
    shown(median(values)),
    shown(Math.max(...values)),
  ]
  const starts = runs.map(({ startMs }) => startMs)
  const passes = runs.map(({ passMs }) => passMs)
  const churns = runs.map(({ churnMs }) => churnMs)
  const cpu = runs.map(({ passCpuMs }) => passCpuMs)
  return {
    title: 'Repair: 1,000,000 Services in-process',
    method:
      `${rounds} rounds in processes of their own, in real time: informers of 1,000,000 Services and their IPAddresses with the repairs of IPAddresses, ClusterIP bitmap and NodePort bitmap on top. ` +
      'The API is in the same process and at rest; 50 objects arrive in a turn of the event loop. "Without a turn": the longest time in which no timer and no I/O had its turn, from `monitorEventLoopDelay`, collections of garbage included.',
    header: ['', 'median', 'most'],
    rows: [
      row('without a turn while the lists come and in the first passes, ms', starts),
      row('without a turn in later passes, ms', passes),
      row('without a turn while 1,000 Services change each second for a minute, ms', churns),
      row('CPU of a later full pass of all three, ms', cpu),
      row(
        'in use, MiB',
        runs.map(({ bytes }) => bytes / 2 ** 20),
      ),
    ],
    bounds: [
      { name: 'without a turn in later passes, median', value: median(passes), limit: 50, unit: 'ms' },
      { name: 'without a turn while Services change, most', value: Math.max(...churns), limit: 250, unit: 'ms' },
      { name: 'CPU of a later full pass, most', value: Math.max(...cpu), limit: 10_000, unit: 'ms' },
      { name: 'in use', value: Math.max(...runs.map(({ bytes }) => bytes)) / 2 ** 20, limit: 500, unit: 'MiB' },
    ],
  }
}

async function run(): Promise<StallRun> {
  const script = fileURLToPath(new URL('repair-stalls-run.ts', import.meta.url))
  const child = spawn(process.execPath, ['--expose-gc', '--max-old-space-size=8192', script, String(services)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
  if (code !== 0) throw new Error('repair-stalls-run.ts failed')
  return JSON.parse(output) as StallRun
}
