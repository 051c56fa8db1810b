import { spawnChild } from '../spawn-child.ts'

// Run by spawn-child.test.ts, which interrupts it.

const child = await spawnChild({ after() {} }, process.execPath, ['--eval', 'setInterval(() => {}, 1000)'])
console.log(`child ${child.pid}`)
await child.exited
