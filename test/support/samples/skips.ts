import { test } from 'node:test'

// Run by leaks.test.ts.

test('is skipped', { skip: true }, () => {})

test('is to be done', { todo: true }, () => {})
