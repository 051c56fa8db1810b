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
 * Registry addresses, which differ from one machine to the next; packages for other platforms that are left out, as npm does where its registry lacks
 * them: `npm ci` then fails everywhere; and packages that are locked by their version alone, so that a registry could give others.
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
 * Development tools' binaries for platforms that the registry of whoever wrote the lock file does not serve: nothing of them is shipped. npm writes their
 * integrity when it is run where they can be had.
 */
function isForeignTool({ dev, optional }: LockedPackage): boolean {
  return dev === true && optional === true
}
