import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'

// Run by leaks.test.ts: every test here passes, and one of them causes an exception while another runs.

test('throws later', () => {
  setTimeout(() => {
    throw new Error('nobody catches')
  }, 10)
})

test('runs meanwhile', () => delay(30))
