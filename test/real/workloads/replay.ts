import { parseArgs } from 'node:util'
import { openOwner } from '../../peers/owner.ts'
import { type HistoryName, histories } from './history.ts'
import { compareSides, describeDifferences } from './run.ts'
import { type Controllers, Side, type Trouble } from './side.ts'
import { describeStep, type Step } from './steps.ts'

// usage: node test/real/workloads/replay.ts --seed SEED [--history plain] [--steps 300] [--keep 1,2,…] [--max 100]
// [--right apiserver-bootstrap] [--trouble no-protobuf|cut-watches]
// Replays the history of a seed, or some of its steps, on one server with kube-controller-manager and on another with
// this program or, with --right kube-controller-manager, with kube-controller-manager too. Prints the differences.

const { values } = parseArgs({
  options: {
    history: { type: 'string', default: 'plain' },
    seed: { type: 'string', default: '1' },
    steps: { type: 'string', default: '300' },
    keep: { type: 'string' },
    max: { type: 'string', default: '100' },
    right: { type: 'string', default: 'apiserver-bootstrap' },
    trouble: { type: 'string' },
  },
})
const all = histories[values.history as HistoryName](Number(values.seed), { steps: Number(values.steps) })
const steps = values.keep === undefined ? all : values.keep.split(',').map((index) => all[Number(index)] as Step)
const options = { maxEndpointsPerSlice: Number(values.max) }
const owner = openOwner()
try {
  const sides = await Promise.all([
    Side.start(owner, 'kube-controller-manager', options),
    Side.start(owner, values.right as Controllers, { ...options, trouble: values.trouble as Trouble | undefined }),
  ])
  console.log(steps.map((step, index) => `${index}: ${describeStep(step)}`).join('\n'))
  const { differences, refused } = await compareSides(sides, steps, {
    patienceMs: 15_000,
    triggerTimes: values.history === 'one-at-a-time',
    ...options,
  })
  console.log(refused.join('\n'))
  console.log(differences.length === 0 ? 'no difference' : describeDifferences(differences))
  process.exitCode = differences.length === 0 ? 0 : 1
} finally {
  await owner.close()
}
