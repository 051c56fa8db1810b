import type { ObservedService } from '../../src/verify/observation.ts'
import { FleetStory, incidents, storyOfThree } from './fleet-story.ts'
import { type Stories, tellStories } from './stories.ts'

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
  'the slice follows in time': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .wait(15_100)
        .list(['a', 'c'], { only: 'endpoints' })
        .wait(1_500)
        .list(['a', 'c'])
        .wait(9_000),
  ],
  'the slice follows later than it may': [
    () =>
      storyOfThree()
        .turn('b', killed)
        .wait(10_100)
        .list(['a', 'c'], { only: 'endpoints' })
        .wait(2_100)
        .list(['a', 'c']),
    'endpoints-and-slice-agree',
  ],
  'the bound decides': [
    () =>
      storyOfThree({}, { agreementMs: 4_000 })
        .turn('b', killed)
        .wait(10_100)
        .list(['a', 'c'], { only: 'endpoints' })
        .wait(3_900)
        .list(['a', 'c']),
  ],
  'they disagree for longer, but about something else each time': [
    () => {
      const story = new FleetStory({ a: {}, b: {}, c: {}, d: {} }).turn('b', killed).turn('d', killed).wait(10_100)
      story.list(['a', 'c', 'd'], { only: 'endpoints' }).wait(1_900).list(['a', 'c', 'd'], { only: 'slice' })
      return story.list(['a', 'c'], { only: 'endpoints' }).wait(1_900).list(['a', 'c'], { only: 'slice' })
    },
  ],
  'they disagree all the time, whatever Endpoints list': [
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
  'nobody is there who could mend the slice': [
    () => {
      const story = storyOfThree().list(['a', 'b'], { only: 'endpoints', byDamage: true })
      return story.turn('a', killed).turn('b', killed).turn('c', killed).wait(60_000)
    },
  ],
  'kube-apiservers mend the slice at a tick': [
    () =>
      storyOfThree({ kind: 'kube-apiserver' })
        .list(['a', 'b', 'c', 'foreign'], { only: 'slice', byDamage: true })
        .wait(11_900)
        .list(['a', 'b', 'c']),
  ],

  // writes-bounded
  'forty writes in ten seconds': [() => writes(storyOfThree(), 40, 100)],
  'one more': [() => writes(storyOfThree(), 41, 100), 'writes-bounded'],
  'the bound of writes decides': [() => writes(storyOfThree({}, { writesPerTenSeconds: 5 }), 6, 100), 'writes-bounded'],
  'many writes over a longer time': [() => writes(storyOfThree(), 100, 300)],
  'reads and events are no writes': [
    () => {
      const story = storyOfThree()
      for (let done = 0; done < 50; done++) story.request('a', 'GET', SLICE).request('a', 'POST', EVENTS)
      return story.wait(1_000)
    },
  ],
  'each master has its own bound': [
    () => {
      const story = storyOfThree()
      for (let done = 0; done < 30; done++) story.request('a', 'PUT', LEASE).request('b', 'PUT', LEASE)
      return story.wait(1_000)
    },
  ],

  // quiet-when-in-sync
  'something is written when all has been right for long': [
    () => storyOfThree().wait(20_600).request('a', 'PUT', SLICE).wait(500),
    'quiet-when-in-sync',
  ],
  'leases are renewed, events told, and much is read when all has been right for long': [
    () =>
      storyOfThree()
        .wait(60_000)
        .request('a', 'PUT', LEASE)
        .request('a', 'POST', EVENTS)
        .request('a', 'GET', SLICE)
        .wait(500),
  ],
  'something is written soon after somebody died': [
    () =>
      storyOfThree().wait(60_000).turn('b', killed).wait(15_100).list(['a', 'c']).request('a', 'PUT', SLICE).wait(500),
  ],
  'something is written soon after it was spoiled': [
    () =>
      storyOfThree()
        .wait(60_000)
        .list([], { byDamage: true })
        .request('a', 'PUT', SLICE)
        .list(['a', 'b', 'c'])
        .wait(500),
  ],
  'something is written while one is not ready': [
    () =>
      storyOfThree().turn('b', unready).wait(5_000).list(['a', 'c']).wait(60_000).request('a', 'PUT', SLICE).wait(500),
  ],

  // nobody-taken-for-a-foreign-writer
  'a master takes another for a foreign writer': [
    () => storyOfThree().request('a', 'POST', EVENTS, { reason: 'ForeignOverwrite', note: 'ten times' }).wait(500),
    'nobody-taken-for-a-foreign-writer',
  ],
  'a master tells something else': [
    () => storyOfThree().request('a', 'POST', EVENTS, { reason: 'LeaseTakenOver' }).wait(500),
  ],

  // service-stays
  'the Service stays as it is': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [...service.ports] }, namespaces }),
  ],
  'its ClusterIP changes': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, clusterIP: '192.0.2.251' }, namespaces }),
    'service-stays',
  ],
  'its NodePort changes': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [{ ...https, nodePort: 30_444 }] }, namespaces }),
    'service-stays',
  ],
  'its NodePort goes': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [{ ...https, nodePort: undefined }] }, namespaces }),
    'service-stays',
  ],
  'it gets another port beside': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, ports: [https, { ...https, name: 'x', port: 1, nodePort: 1 }] }, namespaces }),
  ],
  'it goes': [
    () => storyOfThree().find({ service, namespaces }).find({ service: undefined, namespaces }),
    'service-stays',
  ],
  'it is deleted and made again in one': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, uid: 'two' }, namespaces }),
    'service-stays',
  ],
  'somebody deletes it, and it is made again': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: undefined, namespaces }, true)
        .find({ service: { ...service, uid: 'two', ports: [{ ...https, nodePort: 30_999 }] }, namespaces }),
  ],
  'somebody takes its port away, and it gets another NodePort for it': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find(
          { service: { ...service, ports: [{ ...https, name: 'x', port: 1, nodePort: undefined }] }, namespaces },
          true,
        )
        .find({ service: { ...service, ports: [{ ...https, nodePort: 30_999 }] }, namespaces }),
  ],
  'somebody spoils it, and its ClusterIP is another one': [
    () =>
      storyOfThree()
        .find({ service, namespaces })
        .find({ service: { ...service, clusterIP: '192.0.2.251' }, namespaces }, true),
    'service-stays',
  ],

  // system-namespaces-exist
  'a system namespace is missing for less than the recovery takes': [
    () =>
      storyOfThree()
        .find({ service, namespaces: ['default'] })
        .wait(19_900)
        .find({ service, namespaces })
        .wait(60_000),
  ],
  'a system namespace is missing for longer': [
    () =>
      storyOfThree()
        .find({ service, namespaces: namespaces.slice(1) })
        .wait(20_100),
    'system-namespaces-exist',
  ],
  'a system namespace is missing while nobody could make it': [
    () => {
      const story = storyOfThree().turn('a', killed).turn('b', killed).turn('c', killed)
      return story.find({ service, namespaces: ['default'] }).wait(60_000)
    },
  ],
  'another namespace goes': [
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
  'a start is given up because etcd is full': [
    () =>
      storyOfThree()
        .turn('b', { ...killed, failure: new Error('still refused after 60s: database space exceeded') })
        .wait(100),
  ],
}

tellStories(stories)
