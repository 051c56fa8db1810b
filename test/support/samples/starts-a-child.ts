import { spawnChild } from '../spawn-child.ts'
import { tempDir } from '../temp-dir.ts'

// Run by spawn-child.test.ts, which interrupts it.

const cleanup = { after() {} }
const directory = await tempDir(cleanup)
const child = await spawnChild(cleanup, process.execPath, ['--eval', 'setInterval(() => {}, 1000)'])
console.log(`child ${child.pid} in ${directory}.`)
await child.exited
