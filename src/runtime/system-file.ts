import { readFile } from 'node:fs/promises'

const readings = new Map<string, Promise<string>>()

/**
 * The text of a file. Callers share a reading that is in progress. Otherwise each reading of a file that hangs, such as
 * on a network file system whose server is gone, would take another of Node's four threads for files and names.
 */
export function readText(file: string): Promise<string> {
  const inProgress = readings.get(file)
  if (inProgress !== undefined) return inProgress
  const reading = readFile(file, 'utf8').finally(() => readings.delete(file))
  readings.set(file, reading)
  return reading
}
