import { suite, test } from 'node:test'
import { startProgram } from './command-line.ts'

const addresses = '192.0.2.1,2001:db8::1'

suite('run --embedded with two IP families', { concurrency: 2 }, () => {
  for (const [ranges, clusterIPs, primary, secondary] of [
    ['10.0.0.0/24,fd00::/112', '10.0.0.1,fd00::1', 'IPv4 192.0.2.1', 'ipv6: IPv6 2001:db8::1'],
    ['fd00::/112,10.0.0.0/24', 'fd00::1,10.0.0.1', 'IPv6 2001:db8::1', 'ipv4: IPv4 192.0.2.1'],
  ] as const) {
    test(`the first range of ${ranges} determines the primary family`, async (t) => {
      const flags = ['--health-bind-address=127.0.0.1:0', `--advertise-address=${addresses}`]
      const program = await startProgram(t, ['run', '--embedded', ...flags, `--service-cluster-ip-range=${ranges}`])
      await program.output(new RegExp(`^. Service default/kubernetes: ClusterIP ${clusterIPs} 443->6443$`, 'm'))
      await program.output(new RegExp(`^. EndpointSlice default/kubernetes: ${primary} :6443$`, 'm'))
      await program.output(new RegExp(`^. EndpointSlice default/kubernetes-${secondary} :6443$`, 'm'))
    })
  }
})
