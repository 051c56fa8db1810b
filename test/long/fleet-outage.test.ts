import { test } from 'node:test'
import { fiveMastersThroughAnOutage } from '../real/fleet-outage.ts'

test('five masters are all listed from the first answer of their API server after an outage of a minute', (t) =>
  fiveMastersThroughAnOutage(t, 60_000))
