import { Transcript } from '../../src/drill/report/transcript.ts'
import { renderScenario } from '../../src/drill/scenario/render.ts'
import { describeShortFailure, runShortSchedule, shortSchedule } from './short-schedule.ts'

// usage: node test/drill/short-replay.ts SEED: prints the short schedule as a scenario file, its events and its
// violations.

const seed = Number(process.argv[2] ?? 1)
const { events, violations, digest } = await runShortSchedule(seed)
const transcript = new Transcript()
const happened = [...events.flatMap((event) => transcript.take(event)), ...transcript.end()]
const failed = violations.length === 0 ? [] : [describeShortFailure(seed, violations)]
console.log([renderScenario(shortSchedule(seed)), ...happened, ...failed, digest].join('\n'))
process.exitCode = violations.length > 0 ? 1 : 0
