import { test } from 'node:test'
import { startStockServers } from '../real/repair-stock-starts.ts'

test('while the program runs, a stock server survives 20 starts without its 800 IPAddresses and recreates them itself', (t) =>
  startStockServers(t, { starts: 20 }))
