import { test } from 'node:test'
import { fiveMastersThroughAnOutage } from '../real/fleet-outage.ts'

test('five masters whose API server is away for a minute are all listed when it is back', (t) =>
  fiveMastersThroughAnOutage(t, 60_000))
