import type { EtcdStore } from '../bootstrap/master-options.ts'
import type { Rule } from '../documents/option.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'
import type { YamlDocument } from '../documents/yaml.ts'
import type { ConnectEtcdOptions } from '../etcd/connect-etcd.ts'
import { parseEndpoint } from '../etcd/options.ts'
import { readStart } from '../runtime/system-file.ts'
import type { Configuration } from './configuration.ts'
import { type Flags, type Resolved, resolveConfiguration } from './resolve.ts'

/**
 * The configuration from the flags and from the file that `--config` names, if any. Loads the YAML parser only for a
 * file. Rejects with an {@link InvalidInputError} that contains every mistake. If the file is unreadable or its YAML is
 * invalid, the error contains no other mistakes. `rules` are by default those of `run`.
 */
export async function loadConfiguration(flags: Flags, rules?: readonly Rule<Configuration>[]): Promise<Resolved> {
  const document = flags.config === undefined ? undefined : await loadYaml(flags.config, '--config')
  return resolveConfiguration(flags, document, rules)
}

/**
 * Reads and parses a YAML file. `where` is the flag that a mistake names if the file is unreadable. Rejects with an
 * {@link InvalidInputError}.
 */
export async function loadYaml(file: string, where: string): Promise<YamlDocument> {
  const text = await readStart(file).catch((cause: unknown) => {
    throw new InvalidInputError([{ where, message: `cannot read ${file}: ${unreadableReason(cause)}` }], { cause })
  })
  const { parseYaml } = await import('../documents/yaml.ts')
  return parseYaml(text, file)
}

/**
 * Makes the client for {@link MasterPorts.etcd}, with which a master stores its leases and ranges in etcd or kine.
 * Contacts no server yet. `kv.close()` closes the client. Loads the code for etcd only now, because few programs use
 * etcd.
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
