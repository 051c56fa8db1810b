import { openOwner, temporaryDirectory } from '../../peers/owner.ts'
import { RunningProcess } from '../../peers/process.ts'

// Run by test/peers/reaper.test.ts, which ends it in every way.

const owner = openOwner()
const held = temporaryDirectory(owner, 'held')
const done = openOwner()
temporaryDirectory(done, 'done')
const { pid } = await RunningProcess.start(owner, {
  name: 'sleeper',
  command: process.execPath,
  args: ['--eval', 'setInterval(() => {}, 1000)'],
})
await done.close()
console.log(`process ${pid} directory ${held}.`)
