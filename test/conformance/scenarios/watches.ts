import { asMetadata, asTable, configMap, get, inNamespace, patch, post, remove, type Scenario } from '../scenario.ts'

const maps = inNamespace('configmaps')

/** A watch that the server ends after a second, with all its events until then. */
function watch(query: string, accept?: string): ReturnType<typeof get> {
  return get(`${maps}?watch=true&timeoutSeconds=1${query}`, accept)
}

export const watchScenarios: readonly Scenario[] = [
  {
    name: 'watches',
    steps: [
      post(maps, configMap('a', { a: '1' }, { labels: { app: 'web' } })),
      post(maps, configMap('b')),
      watch(''),
      watch('&resourceVersion=0'),
      watch('&labelSelector=app%3Dweb'),
      watch('&fieldSelector=metadata.name%3Db'),
      watch('', asTable),
      watch('', asMetadata('PartialObjectMetadata')),
      watch(
        '&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true',
        asMetadata('PartialObjectMetadata'),
      ),
      watch('', asMetadata('PartialObjectMetadataList')),
      watch('&resourceVersion=0&labelSelector=none%3Dhere'),
      watch('&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true'),
      watch('&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=0'),
      watch('&sendInitialEvents=true'),
      watch('&sendInitialEvents=true&resourceVersionMatch=Exact'),
      watch('&resourceVersionMatch=NotOlderThan'),
      watch('&resourceVersion=abc'),
      watch('&resourceVersion=99999999999'),
      watch('&labelSelector=app%20in%20('),
      watch('&fieldSelector=data.a%3D1'),
      get(`${inNamespace('unicorns')}?watch=true&timeoutSeconds=1`),
    ],
  },
  {
    name: 'watches from earlier resourceVersions',
    steps: [
      post(maps, configMap('a', { a: '1' }, { labels: { app: 'web' } })),
      get(maps),
      patch('merge', inNamespace('configmaps', 'a'), { data: { a: '2' } }),
      patch('merge', inNamespace('configmaps', 'a'), { metadata: { labels: { app: null } } }),
      patch('merge', inNamespace('configmaps', 'a'), { metadata: { labels: { app: 'web' } } }),
      post(maps, configMap('b')),
      remove(inNamespace('configmaps', 'b')),
      watch('&resourceVersion=LISTED'),
      watch('&resourceVersion=LISTED&labelSelector=app%3Dweb'),
      watch('&resourceVersion=LISTED', asTable),
      get(`${maps}?resourceVersion=LISTED&resourceVersionMatch=Exact`),
      get(`${maps}?resourceVersion=LISTED&resourceVersionMatch=NotOlderThan`),
      get(`${maps}?resourceVersion=LISTED&resourceVersionMatch=Sometimes`),
      get(`${maps}?resourceVersion=LISTED`),
      get(`${inNamespace('configmaps', 'a')}?resourceVersion=LISTED`),
    ],
  },
  {
    name: 'pages',
    steps: [
      ...['a', 'b', 'c', 'd', 'e'].map((name) => post(maps, configMap(name, {}, { labels: { odd: 'yes' } }))),
      get(`${maps}?limit=2`),
      get(`${maps}?limit=2&continue=CONTINUE`),
      get(`${maps}?limit=2&continue=CONTINUE`),
      get(`${maps}?limit=2&labelSelector=odd%3Dyes`),
      get(`${maps}?limit=2&resourceVersion=0`),
      get(`${maps}?limit=0`),
      get(`${maps}?limit=-1`),
      get(`${maps}?limit=2&continue=CONTINUE&resourceVersion=1`),
    ],
  },
]
