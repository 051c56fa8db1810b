import { parseArgs } from 'node:util'
import { explore } from './explore.ts'
import { shipped } from './machine.ts'
import { FAULTS, type Fault } from './moves.ts'
import { WorldModel } from './world.ts'

// usage: node test/model/run.ts [--masters 2] [--faults 2] [--states N] [--minutes N] [--only a,b] [--except a,b]
//   [--shared] [--store kubernetes] [--renewals]
const { values } = parseArgs({
  options: {
    masters: { type: 'string', default: '2' },
    faults: { type: 'string', default: '1' },
    states: { type: 'string', default: '100000000' },
    minutes: { type: 'string' },
    only: { type: 'string' },
    except: { type: 'string', default: '' },
    fair: { type: 'string', default: '1' },
    shared: { type: 'boolean', default: false },
    store: { type: 'string', default: 'etcd' },
    renewals: { type: 'boolean', default: false },
    quiet: { type: 'boolean', default: false },
  },
})
const except = values.except.split(',')
const model = new WorldModel({
  machine: shipped,
  masters: Number(values.masters) as 2 | 3,
  shared: values.shared,
  store: values.store as 'etcd' | 'kubernetes',
  renewals: values.renewals,
  faults: ((values.only?.split(',') ?? FAULTS) as Fault[]).filter((fault) => !except.includes(fault)),
})
const { counterexample, ...figures } = explore(model, {
  faults: Number(values.faults),
  maxStates: Number(values.states),
  maxMs: values.minutes === undefined ? undefined : Number(values.minutes) * 60_000,
  fairEvery: Number(values.fair),
  onProgress: values.quiet ? undefined : (text) => process.stderr.write(`\r${text}   `),
})
console.log()
console.log(
  figures,
  Math.round(figures.states / figures.seconds),
  'states/s',
  model.processes.size,
  'processes',
  model.processes.steps,
  'steps',
)
if (counterexample !== undefined)
  console.log(`${counterexample.faults} faults\n${counterexample.transcript.join('\n')}`)
