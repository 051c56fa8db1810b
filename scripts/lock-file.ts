export interface LockFile {
  readonly packages: Readonly<Record<string, LockedPackage>>
}

export interface LockedPackage {
  readonly resolved?: string
  readonly integrity?: string
  readonly dev?: boolean
  readonly optional?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

/**
 * The faults of a lock file, one line each:
 *
 * - addresses of registries, which differ from machine to machine;
 * - optional packages that are not locked. npm leaves out packages for other platforms that its registry does not have,
 *   and `npm ci` then fails on every machine;
 * - packages without an integrity hash, for which a registry could deliver other contents.
 */
export function lockFileFaults({ packages }: LockFile): string[] {
  return Object.entries(packages).flatMap(([path, locked]) => [
    ...(locked.resolved?.includes('://') ? [`${path} holds the address of a registry`] : []),
    ...Object.keys(locked.optionalDependencies ?? {})
      .filter((name) => !(`node_modules/${name}` in packages) && !(`${path}/node_modules/${name}` in packages))
      .map((name) => `${path} needs ${name} on some platform, which is not locked`),
    ...(path !== '' && locked.integrity === undefined && !isForeignTool(locked) ? [`${path} has no integrity`] : []),
  ])
}

/**
 * Whether a package may lack the integrity hash: it is an optional part of a development tool, such as a binary for a
 * platform, and is not shipped. npm writes no hash for a package that the registry of that machine does not have.
 */
function isForeignTool({ dev, optional }: LockedPackage): boolean {
  return dev === true && optional === true
}
