import { test } from 'node:test'
import { killOverAndOver } from '../real/endpoints-kills.ts'

test('50 kills at random moments of churn leave no endpoint missing, duplicated or left over', (t) =>
  killOverAndOver(t, 50))
