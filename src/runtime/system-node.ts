/**
 * One line that names the oldest Node, when this one is older; else undefined. This module imports nothing, and has no
 * syntax that an old Node cannot read.
 */
export function oldNodeFault(): string | undefined {
  const [oldestMajor, oldestMinor] = [22, 19]
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return undefined
  return `apiserver-bootstrap needs Node ${oldestMajor}.${oldestMinor} or later; this is ${process.versions.node}`
}
