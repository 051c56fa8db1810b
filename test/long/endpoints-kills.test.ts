import { test } from 'node:test'
import { killOverAndOver } from '../real/endpoints-kills.ts'

test('after each of 50 kills at random moments of churn no endpoint is missing, twice there or left over', (t) =>
  killOverAndOver(t, 50))
