/**
 * One line that names the oldest supported Node, if this one is older; else undefined. This module imports nothing, and
 * uses no syntax that an old Node cannot parse.
 */
export function oldNodeFault(): string | undefined {
  const [oldestMajor, oldestMinor] = [22, 19]
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return undefined
  return `apiserver-bootstrap needs Node ${oldestMajor}.${oldestMinor} or later; this is ${process.versions.node}`
}
