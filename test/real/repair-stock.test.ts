import { test } from 'node:test'
import { startStockServers } from './repair-stock-starts.ts'

test('a stock server that starts with 800 IPAddresses missing makes them itself and lives, twice', (t) =>
  startStockServers(t, { starts: 2 }))
