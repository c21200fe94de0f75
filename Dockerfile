# The console and its runner in one container. It answers on loopback alone, so give it the host's network:
#   docker build -t parallab .
#   docker run --rm --init --network host --shm-size 2g -v parallab:/lab parallab
# docs/operations.md tells the rest: GPUs, data sets, what a stop does to runs.
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 parallab && install -d -o parallab -g parallab -m 700 /lab
WORKDIR /opt/parallab
COPY requirements.txt .
RUN python -m pip install --no-cache-dir -r requirements.txt
COPY .streamlit .streamlit
COPY app app
COPY engine engine
COPY pages pages
RUN python -m compileall -q app engine pages

USER parallab
ENV PARALLAB_HOME=/lab PYTHONUNBUFFERED=1
VOLUME /lab
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import json, urllib.request as r; assert json.load(r.urlopen('http://127.0.0.1:8501/healthz', timeout=4))['console'] == 'parallab'"]
CMD ["python", "-m", "streamlit", "run", "app/asgi.py"]
