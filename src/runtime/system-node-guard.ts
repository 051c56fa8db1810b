import { oldNodeFault } from './system-node.ts'

// The first import of both entry points: what they import next fails on an old Node, with an error that helps nobody.
const fault = oldNodeFault()
if (fault !== undefined) throw new Error(fault)
