import { oldNodeFault } from './system-node.ts'

// Both entry points of the library import this first: on an old Node their next import fails with an unhelpful error.
const fault = oldNodeFault()
if (fault !== undefined) throw new Error(fault)
