import { test } from 'node:test'
import { startStockServers } from './repair-stock-starts.ts'

test('while the program runs, a stock server survives two starts without its 800 IPAddresses and recreates them itself', (t) =>
  startStockServers(t, { starts: 2 }))
