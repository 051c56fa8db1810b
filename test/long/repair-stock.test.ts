import { test } from 'node:test'
import { startStockServers } from '../real/repair-stock-starts.ts'

test('of 20 starts of a stock server with 800 IPAddresses missing none ends, while the program runs', (t) =>
  startStockServers(t, { starts: 20 }))
