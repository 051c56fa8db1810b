import type { ObservedService } from '../../src/verify/observation.ts'
import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, testStories } from './stories.ts'

const { killed, unready } = incidents
const SLICE = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes'
const EVENTS = '/apis/events.k8s.io/v1/namespaces/default/events'
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/one'
const namespaces = ['default', 'kube-node-lease', 'kube-public', 'kube-system', 'theirs']
const https = { name: 'https', port: 443, protocol: 'TCP', nodePort: 30_443 }
const service: ObservedService = { uid: 'one', clusterIP: '192.0.2.250', ports: [https] }

function writes(story: FleetStory, count: number, everyMs: number): FleetStory {
  for (let done = 0; done < count; done++) story.request('a', 'PUT', LEASE).wait(everyMs)
  return story
}

const stories: Stories = {
  // endpoints-and-slice-agree
  'the EndpointSlice follows the Endpoints in time': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .wait(15_100)
        .list(['a', 'c'], { only: 'endpoints' })
        .wait(1_500)
        .list(['a', 'c'])
        .wait(9_000),
  ],
  'the EndpointSlice follows the Endpoints too late': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .wait(10_100)
        .list(['a', 'c'], { only: 'endpoints' })
        .wait(2_100)
        .list(['a', 'c']),
    'endpoints-and-slice-agree',
  ],
  'the EndpointSlice follows the Endpoints within a longer bound': [
    () =>
      storyOfThree({}, { agreementMs: 4_000 })
        .turn('b', killed)
        .wait(10_100)
        .list(['a', 'c'], { only: 'endpoints' })
        .wait(3_900)
        .list(['a', 'c']),
  ],
  'Endpoints and EndpointSlice disagree for longer, but about another address each time': [
    () => {
      const story = new FleetStory({ a: {}, b: {}, c: {}, d: {} }).turn('b', killed).turn('d', killed).wait(10_100)
      story.list(['a', 'c', 'd'], { only: 'endpoints' }).wait(1_900).list(['a', 'c', 'd'], { only: 'slice' })
      return story.list(['a', 'c'], { only: 'endpoints' }).wait(1_900).list(['a', 'c'], { only: 'slice' })
    },
  ],
  'Endpoints and EndpointSlice disagree all the time while the Endpoints change': [
    () => {
      const story = new FleetStory({ a: {}, b: {}, c: {}, d: {} }).turn('b', killed).turn('d', killed).wait(10_100)
      return story
        .list(['a', 'c', 'd'], { only: 'endpoints' })
        .wait(1_500)
        .list(['a', 'c'], { only: 'endpoints' })
        .wait(1_500)
    },
    'endpoints-and-slice-agree',
  ],
  'no live master can correct a difference between Endpoints and EndpointSlice': [
    () => {
      const story = storyOfThree().list(['a', 'b'], { only: 'endpoints', byDamage: true })
      return story.turn('a', killed).turn('b', killed).turn('c', killed).wait(60_000)
    },
  ],
  'kube-apiservers correct the EndpointSlice at a tick': [
    () =>
      storyOfThree({ kind: 'kube-apiserver' })
        .list(['a', 'b', 'c', 'foreign'], { only: 'slice', byDamage: true })
        .wait(11_900)
        .list(['a', 'b', 'c']),
  ],

  // writes-bounded
  'forty writes in ten seconds': [() => writes(storyOfThree(), 40, 100)],
  'forty-one writes in ten seconds': [() => writes(storyOfThree(), 41, 100), 'writes-bounded'],
  'six writes with a bound of five': [
    () => writes(storyOfThree({}, { writesPerTenSeconds: 5 }), 6, 100),
    'writes-bounded',
  ],
  'many writes over a longer time': [() => writes(storyOfThree(), 100, 300)],
  'reads and Events do not count as writes': [
    () => {
      const story = storyOfThree()
      for (let done = 0; done < 50; done++) story.request('a', 'GET', SLICE).request('a', 'POST', EVENTS)
      for (let done = 0; done < 50; done++) story.request('a', 'PATCH', `${EVENTS}/kubernetes.18c1`)
      return story.wait(1_000)
    },
  ],
  'each master has its own bound of writes': [
    () => {
      const story = storyOfThree()
      for (let done = 0; done < 30; done++) story.request('a', 'PUT', LEASE).request('b', 'PUT', LEASE)
      return story.wait(1_000)
    },
  ],

  // quiet-when-in-sync
  'a write when everything has been in sync for long': [
    () => storyOfThree().wait(20_600).request('a', 'PUT', SLICE).wait(500),
    'quiet-when-in-sync',
  ],
  'lease renewals, Events and reads when everything has been in sync for long': [
    () =>
      storyOfThree()
        .wait(60_000)
        .request('a', 'PUT', LEASE)
        .request('a', 'POST', EVENTS)
        .request('a', 'GET', SLICE)
        .wait(500),
  ],
  'the count of a repeated Event is written when everything has been in sync for long': [
    () => storyOfThree().wait(60_000).request('a', 'PATCH', `${EVENTS}/kubernetes.18c1`).wait(500),
  ],
  'a write in a namespace with the name events when everything has been in sync for long': [
    () => storyOfThree().wait(60_000).request('a', 'PUT', '/api/v1/namespaces/events/endpoints').wait(500),
    'quiet-when-in-sync',
  ],
  'a write soon after a master died': [
    () =>
      storyOfThree().wait(60_000).turn('b', killed).wait(15_100).list(['a', 'c']).request('a', 'PUT', SLICE).wait(500),
  ],
  'a write soon after an outsider emptied the list': [
    () =>
      storyOfThree()
        .wait(60_000)
        .list([], { byDamage: true })
        .request('a', 'PUT', SLICE)
        .list(['a', 'b', 'c'])
        .wait(500),
  ],
  'a write while a master is unready': [
    () =>
      storyOfThree().turn('b', unready).wait(5_000).list(['a', 'c']).wait(60_000).request('a', 'PUT', SLICE).wait(500),
  ],

  // nobody-taken-for-a-foreign-writer
  'a master reports another as a foreign writer': [
    () => storyOfThree().request('a', 'POST', EVENTS, { reason: 'ForeignOverwrite', note: 'ten times' }).wait(500),
    'nobody-taken-for-a-foreign-writer',
  ],
  'a master records another Event': [
    () => storyOfThree().request('a', 'POST', EVENTS, { reason: 'LeaseTakenOver' }).wait(500),
  ],

  // service-stays
  'the Service does not change': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [...service.ports] }, namespaces }),
  ],
  'the ClusterIP of the Service changes': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, clusterIP: '192.0.2.251' }, namespaces }),
    'service-stays',
  ],
  'the NodePort of the Service changes': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [{ ...https, nodePort: 30_444 }] }, namespaces }),
    'service-stays',
  ],
  'the NodePort of the Service is removed': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [{ ...https, nodePort: undefined }] }, namespaces }),
    'service-stays',
  ],
  'the Service gets an additional port': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [https, { ...https, name: 'x', port: 1, nodePort: 1 }] }, namespaces }),
  ],
  'the Service disappears': [
    () => storyOfThree().find({ service, namespaces }).find({ service: undefined, namespaces }),
    'service-stays',
  ],
  'the Service is deleted and recreated between two observations': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, uid: 'two' }, namespaces }),
    'service-stays',
  ],
  'an outsider deletes the Service, and it is recreated': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: undefined, namespaces }, true)
        .find({ service: { ...service, uid: 'two', ports: [{ ...https, nodePort: 30_999 }] }, namespaces }),
  ],
  'an outsider removes the port of the Service, and it is restored with another NodePort': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find(
          { service: { ...service, ports: [{ ...https, name: 'x', port: 1, nodePort: undefined }] }, namespaces },
          true,
        )
        .find({ service: { ...service, ports: [{ ...https, nodePort: 30_999 }] }, namespaces }),
  ],
  'an outsider changes the ClusterIP of the Service': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, clusterIP: '192.0.2.251' }, namespaces }, true),
    'service-stays',
  ],

  // system-namespaces-exist
  'system namespaces are missing for less than the recovery time': [
    () =>
      storyOfThree()
        .find({ service, namespaces: ['default'] })
        .wait(19_900)
        .find({ service, namespaces })
        .wait(60_000),
  ],
  'a system namespace is missing for longer than the recovery time': [
    () =>
      storyOfThree()
        .find({ service, namespaces: namespaces.slice(1) })
        .wait(20_100),
    'system-namespaces-exist',
  ],
  'system namespaces are missing while no master is alive': [
    () => {
      const story = storyOfThree().turn('a', killed).turn('b', killed).turn('c', killed)
      return story.find({ service, namespaces: ['default'] }).wait(60_000)
    },
  ],
  'another namespace is deleted': [
    () =>
      storyOfThree()
        .find({ service, namespaces: namespaces.slice(0, 4) })
        .wait(60_000),
  ],

  // no-member-fails
  'a process fails': [
    () =>
      storyOfThree()
        .turn('b', { ...killed, failure: new Error('boom') })
        .wait(100),
    'no-member-fails',
  ],
  'a start fails because etcd is full': [
    () =>
      storyOfThree()
        .turn('b', { ...killed, failure: new Error('still refused after 60s: database space exceeded') })
        .wait(100),
  ],
}

testStories(stories)
