import { oldNodeFault } from './system-node.ts'

// Both entry points import this first, because their next import fails on an old Node, with an unhelpful error.
const fault = oldNodeFault()
if (fault !== undefined) throw new Error(fault)
