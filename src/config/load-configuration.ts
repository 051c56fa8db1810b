import { readFile } from 'node:fs/promises'
import type { EtcdStore } from '../bootstrap/master-options.ts'
import type { Rule } from '../documents/option.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'
import type { YamlDocument } from '../documents/yaml.ts'
import type { ConnectEtcdOptions } from '../etcd/connect-etcd.ts'
import { parseEndpoint } from '../etcd/options.ts'
import type { Configuration } from './configuration.ts'
import { type Flags, type Resolved, resolveConfiguration } from './resolve.ts'

/**
 * The configuration from flags and, where `--config` names one, a configuration file; the YAML parser is loaded only
 * then. Throws an {@link InvalidInputError} with every mistake, an unreadable file among them.
 */
export async function loadConfiguration(flags: Flags, rules?: readonly Rule<Configuration>[]): Promise<Resolved> {
  const file = flags.config
  if (file === undefined) return resolveConfiguration(flags, undefined, rules)
  return resolveConfiguration(flags, await loadYaml(file, '--config'), rules)
}

/** Reads the YAML file that the flag `where` names; loads the parser. Throws an {@link InvalidInputError}. */
export async function loadYaml(file: string, where: string): Promise<YamlDocument> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new InvalidInputError([{ where, message: `cannot read ${file}: ${unreadableReason(cause)}` }], { cause })
  })
  const { parseYaml } = await import('../documents/yaml.ts')
  return parseYaml(text, file)
}

/**
 * The port with which a master stores its leases and ranges in an etcd or kine: for {@link MasterPorts.etcd}. Contacts
 * nothing yet; `kv.close()` ends it. Only this module loads the code for etcd and protobuf, for programs that use it.
 *
 * @param options - `endpoints` as texts: `https://host:2379`, `http://host:2379` or `unix:///path`.
 * @throws EtcdEndpointError for an invalid endpoint.
 */
export async function connectEtcdStore(
  options: Omit<ConnectEtcdOptions, 'endpoints'> & { readonly endpoints: readonly string[] },
): Promise<EtcdStore> {
  const endpoints = options.endpoints.map(parseEndpoint)
  const [{ connectEtcd }, { EtcdLeases }, { EtcdRangeRegistry }] = await Promise.all([
    import('../etcd/connect-etcd.ts'),
    import('../kubernetes-service/leases/etcd/leases.ts'),
    import('../repair/registries/etcd.ts'),
  ])
  return { kv: connectEtcd({ ...options, endpoints }), Leases: EtcdLeases, Ranges: EtcdRangeRegistry }
}
